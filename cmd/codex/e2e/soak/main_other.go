//go:build !linux

// Soak loads a server for hours; there is one on Linux alone.
package main

func main() {}
