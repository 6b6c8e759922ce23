package remote

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/host/terminal"
	"golang.org/x/term"
)

// redraw is the minimal time between two drawings of a progress bar.
const redraw = 100 * time.Millisecond

// progress draws the progress of a copy, if stderr is a terminal. A nil progress draws
// nothing.
type progress struct {
	to io.Writer
	fd int

	mu          sync.Mutex
	name        string
	files       int // files so far, in a copy of several files, which has one line
	many        bool
	done, total int64
	// These fields are for a copy whose size is known before it begins.
	expected      bool
	expectedFiles int
	began, last   time.Time
}

func newProgress(to io.Writer, quiet bool) *progress {
	f, _ := cmdutil.FileOf(to)
	if quiet || !cmdutil.IsTerminal(to) {
		return nil
	}
	return &progress{to: cmdutil.DrawOn(to), fd: int(f.Fd())}
}

// begin begins the next file.
func (p *progress) begin(name string, total int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.many {
		p.files++
		if !p.expected {
			p.total += total
		}
		p.name = terminal.Text(filepath.Base(name))
		p.drawSometimes()
		return
	}
	p.endLine()
	p.name, p.done, p.total, p.began, p.last = terminal.Text(filepath.Base(name)), 0, total, time.Now(), time.Time{}
	p.draw()
}

// add counts bytes that were copied.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	p.drawSometimes()
}

// tree draws one line for all files that follow.
func (p *progress) tree() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.many {
		p.many, p.began = true, time.Now()
	}
}

// expect sets the total of a copy that has one line.
func (p *progress) expect(files int, bytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.many, p.began, p.expected, p.expectedFiles = true, time.Now(), true, files
	p.files, p.done, p.total = 0, 0, bytes
}

// interrupt ends the line before a message is printed.
func (p *progress) interrupt() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
}

func (p *progress) drawSometimes() {
	if now := time.Now(); now.Sub(p.last) >= redraw {
		p.last = now
		p.draw()
	}
}

// finish ends the last line.
func (p *progress) finish() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
}

func (p *progress) endLine() {
	if p.name != "" {
		p.draw()
		fmt.Fprintln(p.to)
		p.name = ""
	}
}

// draw redraws the line.
func (p *progress) draw() {
	width, _, err := term.GetSize(p.fd)
	if err != nil || width < 20 {
		width = 80
	}
	percent := int64(100)
	if p.total > 0 {
		percent = min(100, p.done*100/p.total)
	}
	rate := float64(p.done) / max(time.Since(p.began).Seconds(), 1e-3)
	if p.many {
		line := p.wholeLine(rate)
		space := max(0, width-len(line)-2)
		name := []rune(p.name)
		fmt.Fprintf(p.to, "\r%s %-*s", line, space, string(name[:min(len(name), space)]))
		return
	}
	right := fmt.Sprintf("%3d%% %9s %9s/s", percent, bytesText(float64(p.done)), bytesText(rate))
	name := []rune(p.name)
	bar := ""
	if space := width - len(right) - min(len(name), 30) - 5; space >= 10 {
		full := int(int64(space) * percent / 100)
		bar = "[" + strings.Repeat("=", full) + strings.Repeat(" ", space-full) + "] "
	}
	fmt.Fprintf(p.to, "\r%-*s %s%s", min(len(name), 30), string(name[:min(len(name), 30)]), bar, right)
}

// wholeLine returns the line for a copy of several files: their number, bytes and rate. If the
// total is known, it adds the total and the time left.
func (p *progress) wholeLine(rate float64) string {
	if !p.expected {
		return fmt.Sprintf("%d files %9s %9s/s", p.files, bytesText(float64(p.done)), bytesText(rate))
	}
	left := "--:--"
	if rate > 0 {
		seconds := int64(float64(max(0, p.total-p.done)) / rate)
		if left = fmt.Sprintf("%d:%02d", seconds/60, seconds%60); seconds >= 3600 {
			left = fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
		}
	}
	return fmt.Sprintf("%d/%d files %9s of %s %9s/s %s left",
		p.files, p.expectedFiles, bytesText(float64(p.done)), bytesText(float64(p.total)), bytesText(rate), left)
}

// bytesText formats a number of bytes.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for n >= 1024 && len(units) > 1 {
		n /= 1024
		units = units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[0])
}
