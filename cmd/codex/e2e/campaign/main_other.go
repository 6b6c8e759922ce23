//go:build !linux

// Campaign attacks the sandbox at random; there is one on Linux alone.
package main

func main() {}
