package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A player is a client in a process of its own: this program with -play and the server's address,
// the number of its token and the directory of its files. These are the kinds of players.
const (
	playQuiet   = "quiet"   // waits for each answer, and prints how many milliseconds each took
	playEndless = "endless" // sends requests without waiting for answers, which it reads
	playWindow  = "window"  // has floodWindow requests in flight
)

const (
	quietRequests = 300
	quietPause    = 5 * time.Millisecond
	floodWindow   = 64
)

// smallParams are the params of fs/getMetadata for the small file.
func smallParams(dir string) string { return `{"path":"file://` + filepath.Join(dir, "small") + `"}` }

// player is a running player.
type player struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startPlayer starts a player. The caller finishes its command.
func startPlayer(kind string, s *server, token int) (*player, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &player{cmd: exec.Command(self, "-play", kind, s.url, strconv.Itoa(token), s.dir)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, launch(p.cmd)
}

// prefer makes the scheduler prefer a process to all others. Scenario: on a machine with two
// processors, the ten clients of a flood take the processors from the server and from the quiet
// client, which then wait for the scheduler and not for the server's other work. Clients on machines
// of their own would not do that. prefer needs root.
func prefer(cmd *exec.Cmd) error {
	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	// Where the scheduler groups the processes of a session, the priority of the group counts.
	if err := os.WriteFile(proc+"autogroup", []byte("-20"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	threads, err := os.ReadDir(proc + "task")
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		err = errors.Join(err, syscall.Setpriority(syscall.PRIO_PROCESS, id, -20))
	}
	return err
}

// measureQuiet runs a quiet player, and returns how many milliseconds each of its requests took.
// If preferred is set, the scheduler prefers the player.
func measureQuiet(s *server, preferred bool) ([]float64, error) {
	p, err := startPlayer(playQuiet, s, -1)
	if err != nil {
		return nil, err
	}
	defer finish(p.cmd)
	if preferred {
		if err := prefer(p.cmd); err != nil {
			return nil, err
		}
	}
	var all []float64
	for range quietRequests {
		v, err := p.number()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// answered returns how many bytes of answers a player has read that floods the server.
func (p *player) answered() (int64, error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return 0, err
	}
	n, err := p.number()
	return int64(n), err
}

// number reads a number that the player prints.
func (p *player) number() (float64, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("a client ended: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

// play is the main function of a player. A flooding one ends when it is killed or its connection
// ends.
func play(kind string, args []string) error {
	if len(args) != 3 {
		return errors.New("-play needs the server's address, the number of a token and a directory")
	}
	token, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	dir := args[2]
	one, err := connect(args[0], floodToken(token))
	if err != nil {
		return err
	}
	defer one.close()
	var answered atomic.Int64
	switch kind {
	case playQuiet:
		return playQuietly(one, dir)
	case playEndless:
		go tell(&answered)
		return playEndlessly(one, dir, &answered)
	case playWindow:
		go tell(&answered)
		return playInWindow(one, dir, &answered)
	}
	return fmt.Errorf("there is no player %s", kind)
}

// tell prints the number each time that a line arrives on standard input.
func tell(answered *atomic.Int64) {
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		fmt.Println(answered.Load())
	}
}

func playQuietly(one *client, dir string) error {
	for range quietRequests {
		time.Sleep(quietPause)
		v, err := timed(func() error {
			_, err := one.call("fs/getMetadata", smallParams(dir))
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println(v)
	}
	return nil
}

func playEndlessly(one *client, dir string, answered *atomic.Int64) error {
	conn := one.ws.UnderlyingConn()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	go metadataFlood(dir, one, 1<<30)
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		answered.Add(int64(n))
	}
}

func playInWindow(one *client, dir string, answered *atomic.Int64) error {
	for sent := 1; ; sent++ {
		if _, err := one.send("fs/getMetadata", smallParams(dir)); err != nil {
			return err
		}
		if sent < floodWindow {
			continue
		}
		m, err := one.read()
		if err != nil {
			return err
		}
		answered.Add(int64(len(m)))
	}
}
