// Command emit is the program that the recovery tests run on the server. Its arguments determine
// its output.
//
//	emit print SEED STDOUT STDERR CODE   write so many random bytes, exit
//	emit await ADDR SEED STDOUT CODE     do so when a connection to ADDR ends
//	emit echo BYTES CODE                 say a byte when ready, then write so
//	                                     many bytes of stdin
//	emit idle                            wait for the end
//
// On a terminal it turns off every mode that would change bytes.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
)

func main() {
	if term.IsTerminal(0) {
		if _, err := term.MakeRaw(0); err != nil {
			fail(err)
		}
	}
	args := os.Args[2:]
	code := 0
	switch os.Args[1] {
	case "print":
		print(os.Stdout, number(args[0]), 1, number(args[1]))
		print(os.Stderr, number(args[0]), 2, number(args[2]))
		code = int(number(args[3]))
	case "await":
		if c, err := net.Dial("tcp", args[0]); err == nil {
			_, _ = io.Copy(io.Discard, c) // whatever ends the connection
		}
		print(os.Stdout, number(args[1]), 1, number(args[2]))
		code = int(number(args[3]))
	case "echo":
		if _, err := os.Stdout.WriteString("!"); err != nil {
			fail(err)
		}
		if _, err := io.CopyN(os.Stdout, os.Stdin, int64(number(args[0]))); err != nil {
			fail(err)
		}
		code = int(number(args[1]))
	case "idle":
		time.Sleep(time.Hour)
	}
	os.Exit(code)
}

// print writes n random bytes, in writes of random sizes.
func print(to io.Writer, seed uint64, stream byte, n uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	key[8] = stream
	random := rand.NewChaCha8(key)
	sizes := rand.New(rand.NewPCG(seed, uint64(stream)))
	buf := make([]byte, 64<<10)
	for n > 0 {
		b := buf[:min(n, 1+sizes.Uint64N(uint64(len(buf))))]
		_, _ = random.Read(b) // it never fails
		if _, err := to.Write(b); err != nil {
			fail(err)
		}
		n -= uint64(len(b))
	}
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		fail(err)
	}
	return n
}

// fail exits with a code that no test expects.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "emit:", err)
	os.Exit(99)
}
