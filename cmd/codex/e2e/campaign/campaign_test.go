// Package campaign attacks the sandbox at random and compares the effects with an oracle.
//
// A seed determines a scenario: a tree of directories, files, links, FIFOs, sockets and
// repositories, a policy for it, and circumstances. A probe that is confined under the policy tries
// every operation of the system calls on every path, under many spellings. A server works on the
// same paths with the same policy. Meanwhile other sandboxes and an unconfined process rename,
// exchange, link and mount. At the end, only paths that the oracle allows may have been read,
// written, created, removed or changed, and no placeholder and no process may be left.
//
// The oracle (oracle_test.go) is written from the documentation alone, and shares no code with the
// program that it judges.
package campaign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/machine"
)

// allBackends are the backends of --backend all.
var allBackends = []string{"namespaces", "bwrap", "landlock"}

// mostRefused is the largest share of a backend's runs that may be refused. With a larger share,
// the campaign proves little. Most refusals happen because other sandboxes have put links in the
// path of an entry. bwrap also fails when a file is moved while it mounts, and Landlock cannot
// express many policies.
var mostRefused = map[string]float64{"namespaces": 0.5, "bwrap": 0.65, "landlock": 0.65}

const (
	// enough is the number of runs from which such a share is judged.
	enough = 60
	// shrinkTries is the number of times that a scenario is played without a circumstance before
	// that circumstance counts as needed.
	shrinkTries = 2
	// usualSeed is the seed of a scenario in which a command of each backend may read, write, rename and connect.
	usualSeed = 6
	// worstTime is longer than any scenario needs.
	worstTime = 5 * time.Minute
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "probe":
		os.Exit(runProbe(os.Args[2]))
	case len(os.Args) > 1 && os.Args[1] == "play":
		os.Exit(playOne(os.Args[2:]))
	}
	harness.SlowMain(m)
}

// playOne is the main function of a worker. Arguments: BIN DIR SEED BACKEND UID WITHOUT.
func playOne(args []string) int {
	seed, _ := strconv.ParseUint(args[2], 10, 64)
	uid, _ := strconv.Atoi(args[4])
	w := &worker{scenario: generate(seed, args[3], uid).without(strings.Split(args[5], ",")), bin: args[0], self: args[1], r: result{Works: make(map[string]int)}}
	if err := w.play(); err != nil {
		w.r.Broken = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(w.r)
	return 0
}

type campaign struct {
	*settings
	bed    *harness.Testbed
	mu     sync.Mutex
	totals map[string]*total // by backend and user id
}

type total struct {
	result
	scenarios int
	refusals  map[string]int
}

// settings are the options of the command line.
type settings struct {
	duration time.Duration
	seed     uint64
	count    int
	backends []string
	users    []int
	jobs     int
	without  []string
	quick    bool
	verbose  bool
	show     bool
}

var (
	asked   settings
	backend = flag.String("backend", "all", "namespaces, bwrap, landlock or all")
	user    = flag.Int("user", 54321, "the ordinary user that root becomes, an unused `uid`; -1: root alone, with --only-user: that user alone")
	only    = flag.Bool("only-user", false, "do not play root")
	without = flag.String("without", "", "leave `circumstances` out: "+strings.Join(circumstances, ", "))
)

func init() {
	flag.DurationVar(&asked.duration, "duration", 0, "how long to go on; without --count")
	flag.Uint64Var(&asked.seed, "seed", 0, "the first scenario's `number`, others follow (default: one that go test plays, with --duration by chance)")
	flag.IntVar(&asked.count, "count", 0, "how many scenarios of each backend and user (default: one, or as long as --duration)")
	flag.IntVar(&asked.jobs, "jobs", 2, "scenarios at a time")
	flag.BoolVar(&asked.quick, "quick", false, "do not shrink what breaches")
	flag.BoolVar(&asked.verbose, "v", false, "print every scenario's outcome")
	flag.BoolVar(&asked.show, "show", false, "print the scenario of --seed and --backend, and run nothing")
}

// decided returns the options with defaults for this machine.
func (s settings) decided(t *testing.T) *settings {
	s.backends = allBackends
	if *backend != "all" {
		s.backends = strings.Split(*backend, ",")
	}
	s.users = []int{os.Geteuid()}
	if os.Geteuid() == 0 && *user >= 0 {
		s.users = append(s.users, *user)
		if *only {
			s.users = s.users[1:]
		}
	}
	switch {
	case s.seed == 0 && s.duration == 0:
		s.seed = usualSeed
	case s.seed == 0:
		s.seed = rand.Uint64() >> 20
	}
	if s.duration == 0 && s.count == 0 {
		s.count = 1
		lacks := func(name string) bool {
			return slices.ContainsFunc(s.users, func(uid int) bool { return !machine.Has(t, uid, name) })
		}
		s.backends = slices.DeleteFunc(slices.Clone(s.backends), lacks)
	}
	s.without = strings.FieldsFunc(*without, func(r rune) bool { return r == ',' })
	return &s
}

// TestCampaign is the test that scripts/campaign runs. go test plays one scenario for each
// backend and user.
func TestCampaign(t *testing.T) {
	s := asked.decided(t)
	if s.show {
		text, _ := json.MarshalIndent(generate(s.seed, s.backends[0], s.users[0]), "", " ")
		fmt.Println(string(text))
		return
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &campaign{settings: s, bed: harness.NewTestbed(t, -1), totals: make(map[string]*total)}
	harness.Must(t, os.Mkdir(filepath.Join(c.bed.Dir, "root"), 0o755))
	fmt.Printf("campaign: seed %d, %v, as %v\n", s.seed, s.backends, s.users)
	harness.Must(t, c.control(ctx))
	tasks := make(chan task)
	var wg sync.WaitGroup
	for range s.jobs {
		wg.Go(func() {
			for next := range tasks {
				c.one(ctx, next.seed, next.backend, next.uid)
			}
		})
	}
	s.feed(ctx, tasks)
	close(tasks)
	wg.Wait()
	c.summary()
}

// task is a scenario to play.
type task struct {
	seed    uint64
	backend string
	uid     int
}

// feed sends the scenarios to play until enough have been sent or the time is over.
func (s *settings) feed(ctx context.Context, tasks chan<- task) {
	deadline := time.Now().Add(s.duration)
	for n := uint64(0); s.count == 0 || n < uint64(s.count); n++ {
		for _, uid := range s.users {
			for _, name := range s.backends {
				if s.count == 0 && time.Now().After(deadline) {
					return
				}
				select {
				case tasks <- task{s.seed + n, name, uid}:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// control plays scenarios without a sandbox. If a kind of breach does not appear even then, the
// campaign could never find it.
func (c *campaign) control(ctx context.Context) error {
	if os.Geteuid() != 0 {
		fmt.Println("campaign: without root there is no control: nothing runs without a sandbox where it could do harm")
		return nil
	}
	missing := map[string]bool{"read": true, "contents": true, "mode": true, "name": true, "created": true, "network": true, "fifo": true}
	for n := range uint64(20) {
		r, err := c.play(ctx, c.seed+n, "none", c.users[0], nil)
		if err == nil && r.Broken != "" {
			err = errors.New(r.Broken)
		}
		if err != nil {
			return err
		}
		for _, b := range r.Breaches {
			for kind := range strings.SplitSeq(b.Kind, "+") {
				delete(missing, kind)
			}
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return fmt.Errorf("without a sandbox nothing of this was found out: %v", slices.Sorted(maps.Keys(missing)))
}

// play makes a worker play a scenario.
func (c *campaign) play(ctx context.Context, seed uint64, backend string, uid int, without []string) (r result, err error) {
	dir, err := os.MkdirTemp(c.bed.Dir, "w")
	if err != nil {
		return r, err
	}
	defer harness.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, worstTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bed.Self(), "play", filepath.Dir(c.bed.Self()), dir, strconv.FormatUint(seed, 10), backend, strconv.Itoa(uid), strings.Join(without, ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

func (c *campaign) one(ctx context.Context, seed uint64, backend string, uid int) {
	r, err := c.play(ctx, seed, backend, uid, c.without)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.Broken = err.Error()
	}
	shrunk := c.without
	if len(r.Breaches) > 0 && !c.quick {
		shrunk = c.shrink(ctx, seed, backend, uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%-10s as %d", backend, uid)
	t := c.totals[key]
	if t == nil {
		t = &total{refusals: make(map[string]int)}
		t.Works = make(map[string]int)
		c.totals[key] = t
	}
	t.scenarios++
	t.Ran += r.Ran
	t.Killed += r.Killed
	t.Requests += r.Requests
	t.Denied += r.Denied
	t.Refused = append(t.Refused, r.Refused...)
	for _, why := range r.Refused {
		t.refusals[why]++
	}
	for k, n := range r.Works {
		t.Works[k] += n
	}
	text, _ := json.Marshal(generate(seed, backend, uid).without(shrunk))
	replay := fmt.Sprintf("scripts/campaign --count 1 --seed %d --backend %s", seed, backend)
	if os.Geteuid() == 0 {
		replay += " --user " + strconv.Itoa(uid) + " --only-user"
		if uid == 0 {
			replay = strings.TrimSuffix(replay, "0 --only-user") + "-1"
		}
	}
	if c.verbose {
		fmt.Printf("seed %d, %s: %+v\n", seed, key, r)
	}
	if r.Broken != "" {
		c.bed.T.Errorf("BROKEN seed %d, %s: %s\n  again: %s", seed, key, r.Broken, replay)
	}
	if len(r.Breaches) == 0 {
		return
	}
	var found strings.Builder
	for _, b := range r.Breaches {
		fmt.Fprintf(&found, "  %s: %s\n", b.Kind, b.Text)
	}
	if len(shrunk) > 0 {
		replay += " --without " + strings.Join(shrunk, ",")
	}
	c.bed.T.Errorf("BREACH seed %d, %s\n%s  scenario: %s\n  again: %s", seed, key, &found, text, replay)
}

// shrink removes circumstances that a breach does not need. If a breach appears
// only sometimes, it may keep too many circumstances, but it never removes a
// needed one.
func (c *campaign) shrink(ctx context.Context, seed uint64, backend string, uid int) []string {
	without := c.without
	for _, what := range circumstances {
		for range shrinkTries {
			try := append(slices.Clone(without), what)
			if r, err := c.play(ctx, seed, backend, uid, try); err == nil && len(r.Breaches) > 0 {
				without = try
				break
			}
		}
	}
	return without
}

// summary prints the counts, and fails the test if they prove too little.
func (c *campaign) summary() {
	ran := 0
	for _, key := range sortedKeys(c.totals) {
		t := c.totals[key]
		works := make([]string, 0, len(t.Works))
		for _, k := range sortedKeys(t.Works) {
			works = append(works, fmt.Sprintf("%s %d", k, t.Works[k]))
		}
		ran += t.Ran + t.Killed
		share := float64(len(t.Refused)) / float64(max(1, t.Ran+t.Killed+len(t.Refused)))
		fmt.Printf("%s: %d scenarios, %d probes ran, %d were killed, %d refused (%.0f%%), %d file requests (%d denied); allowed and done: %s\n",
			key, t.scenarios, t.Ran, t.Killed, len(t.Refused), 100*share, t.Requests, t.Denied, strings.Join(works, ", "))
		reasons := slices.SortedFunc(maps.Keys(t.refusals), func(a, b string) int {
			return cmp.Or(cmp.Compare(t.refusals[b], t.refusals[a]), strings.Compare(a, b))
		})
		for _, why := range reasons[:min(8, len(reasons))] {
			fmt.Printf("  %5d refused with %s\n", t.refusals[why], why)
		}
		most := mostRefused[strings.Fields(key)[0]]
		if n := t.Ran + t.Killed + len(t.Refused); n >= enough && share > most {
			c.bed.T.Errorf("%s: %.0f%% were refused, at most %.0f%% may be", key, 100*share, 100*most)
		}
		if t.scenarios >= enough && (t.Works["read"] == 0 || t.Works["write"] == 0) {
			c.bed.T.Errorf("%s: that says nothing: what is allowed was not done either", key)
		}
	}
	if ran == 0 {
		c.bed.T.Error("no probe ran")
	}
}
