// Soak loads the program that ships for hours and looks for what is left.
//
// It starts a codex exec-server as a process of an ordinary user with a cgroup of its own,
// and keeps many connections to it. Each goes through a proxy that cuts, stalls and refuses,
// and calls all methods of the protocol in turn, with sandboxes and without. After the first
// minute, and at the end, it lets the server come to rest: all connections are closed, and
// the lifetime of lost sessions has passed. Memory, descriptors, goroutines, processes,
// cgroups, mounts and files must be the same both times, but for named tolerances.
//
// What is measured meanwhile is written as CSV.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	duration, warmUp time.Duration
	connections      int
	rate             float64
	ttl, interval    time.Duration
	user             int
	backend, bin     string
	out              string
	seed             uint64
	verbose          bool
}

func main() {
	if len(os.Args) > 1 {
		if helper := helpers[os.Args[1]]; helper != nil {
			os.Exit(helper(os.Args[2:]))
		}
	}
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	os.Exit(code)
}

// firstUser is above the ids that distributions and containers give.
const firstUser = 1 << 30

// helpers are what this program does with another first argument: the programs that the server
// runs in turns about the network.
var helpers = map[string]func([]string) int{"greet": greet, "fetch": fetch}

func parse() options {
	var o options
	flag.DurationVar(&o.duration, "duration", 4*time.Hour, "how long the load goes on after the first rest")
	flag.DurationVar(&o.warmUp, "warm-up", time.Minute, "how long it goes on before that")
	flag.IntVar(&o.connections, "connections", 200, "connections at a time")
	flag.Float64Var(&o.rate, "rate", 10, "turns a second of all connections together: a turn is 1 to 30 requests")
	flag.DurationVar(&o.ttl, "session-ttl", time.Minute, "the server's --session-ttl")
	flag.DurationVar(&o.interval, "interval", 5*time.Second, "time between two measurements")
	flag.IntVar(&o.user, "user", 0, "the ordinary user that the server runs as if this runs as root, an unused `uid`; 0: one by this process's id; -1: root")
	flag.StringVar(&o.backend, "backend", "auto", "the server's --sandbox-backend")
	flag.StringVar(&o.bin, "bin", "", "`directory` of the programs")
	flag.StringVar(&o.out, "out", "", "`directory` for soak.csv and the server's log (default: none is kept)")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "`number` that decides what is done and cut")
	flag.BoolVar(&o.verbose, "v", false, "print each failed and each lost turn")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "Options of scripts/soak, with one dash or two:")
		flag.PrintDefaults()
	}
	flag.Parse()
	switch {
	case os.Geteuid() != 0:
		o.user = -1
	case o.user == 0:
		// Several soaks at a time must not count each other's processes.
		o.user = firstUser + os.Getpid()
	}
	return o
}

// run makes the soak and returns the exit code: 1 if something failed or was left, 2 if it
// could not be made.
func run(ctx context.Context, o options) (int, error) {
	base, err := os.MkdirTemp("/var/tmp", "soak")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(base)
	if o.out == "" {
		o.out = filepath.Join(base, "out")
	}
	s, err := newSoak(o, base)
	if err != nil {
		return 2, err
	}
	defer s.close()
	if err := s.play(ctx); err != nil {
		return 2, err
	}
	return s.judge(), nil
}
