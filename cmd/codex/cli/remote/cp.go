package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteCpCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files to or from the server", ArgsUsage: "SOURCE... TARGET",
		Description: `A path that begins with a colon is the server's, as in scp without a host;
any other is local. Relative paths of the server begin at its own directory,
:~ is its home. In the path of a server's source, * ? and [ ] match names. Each
file is replaced in one step, when its copy is complete.

New files get the permissions of their source, less the umask; existing files keep
their own. Links in a directory are copied as links. Devices, FIFOs and sockets in
it are not copied. If some files cannot be copied, they are reported, the others are
copied, and the exit code is 1.

A local copy gets the last name in the source as you typed it, or that of the target:
:~ and :. need a name in the target. A link that is named as the target is followed;
links in and below a target directory are not. A device, a FIFO or a terminal is
written into; - is standard input or output.

Examples:
   codex remote cp report.pdf :/tmp/
   codex remote cp :/var/log/syslog .
   codex remote cp ':src/*.go' ':src/go.*' .
   codex remote cp :/etc/os-release - | head -1
   codex remote cp -r --exclude node_modules ./src :~/project`,
		Flags: []cli.Flag{
			cmdutil.BothFiles,
			urlFlag(), caFlag(), clientCertFlag(), clientKeyFlag(), envFlag(), verboseFlag(), quietFlag(),
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r", "R"}, Usage: "copy directories with all that is in them"},
			&cli.BoolFlag{Name: "preserve", Aliases: []string{"p"}, Usage: "preserve times and permissions of the source"},
			&cli.BoolFlag{Name: "owner", Usage: "preserve owners and groups of the source, by number; needs root on the target's side"},
			&cli.StringSliceFlag{Name: "exclude", Usage: "leave out names in a directory that match `PATTERN`, or paths if it has a slash; may be repeated"},
		},
		Action: func(c *cli.Context) error { return copyFiles(c, s) },
	}
}

func copyFiles(c *cli.Context, s cmdutil.Streams) error {
	args := c.Args().Slice()
	if len(args) < 2 {
		return cmdutil.Usagef("cp needs a source and a target, of which one begins with a colon: codex remote cp FILE :/tmp/")
	}
	sources, target := args[:len(args)-1], args[len(args)-1]
	toServer := strings.HasPrefix(target, ":")
	for _, source := range sources {
		if strings.HasPrefix(source, ":") == toServer {
			return cmdutil.Usagef("cp copies between this machine and the server: either the target or the sources begin with a colon%s", environmentHint("cp", args))
		}
	}
	options := copyOptions{recursive: c.Bool("recursive"), preserve: c.Bool("preserve"), owners: c.Bool("owner"), patterns: c.StringSlice("exclude")}
	if err := options.check(); err != nil {
		return err
	}
	return withFiles(c, func(fs *execclient.FS, at places) error {
		cp := &copying{
			ctx: c.Context, fs: fs, at: at, options: options, quiet: isQuiet(c),
			bar: newProgress(s.Err, isQuiet(c)), in: s.In, out: s.RawOut, errs: s.Err,
			large: make(chan struct{}, largeInFlight),
		}
		err := cp.all(sources, target, toServer)
		cp.bar.finish()
		return err
	})
}

// environmentHint returns a hint for a command line with a HOST:PATH, as scp and rsync take it.
func environmentHint(command string, args []string) string {
	for i, arg := range args {
		host, rest, found := strings.Cut(arg, ":")
		if _, err := os.Stat(arg); !found || host == "" || strings.Contains(host, "/") || err == nil {
			continue
		}
		meant := slices.Clone(args)
		meant[i] = ":" + rest
		return fmt.Sprintf("; the server is named by --env: codex remote %s --env %s %s", command, host, strings.Join(meant, " "))
	}
	return ""
}

// copyOptions are the options of a copy.
type copyOptions struct {
	recursive, preserve, owners bool

	patterns []string                                  // the values of --exclude
	exclude  func(below string, isDirectory bool) bool // matches patterns; nil if no patterns are given
}

// check prepares the options. It returns an error for an invalid pattern.
func (o *copyOptions) check() error {
	var err error
	if o.exclude, err = archive.Excluder(o.patterns); err != nil {
		return cmdutil.Usagef("--exclude %v", err)
	}
	return nil
}

// leavesOut reports whether --exclude matches a path below the source, or a directory on the
// way to it.
func (o *copyOptions) leavesOut(below string, isDirectory bool) bool {
	for ; o.exclude != nil && below != "" && below != "."; below, isDirectory = path.Dir(below), true {
		if o.exclude(below, isDirectory) {
			return true
		}
	}
	return false
}

// copying is one copy.
type copying struct {
	ctx      context.Context
	fs       *execclient.FS
	at       places
	options  copyOptions
	quiet    bool
	bar      *progress
	in       io.Reader // stdin of codex
	out      io.Writer
	errs     io.Writer
	large    chan struct{} // holds a value for each large file that is being copied
	plain    sync.Mutex    // held while a plainTree is being copied
	warnOnce sync.Once

	// deferred reports whether the report of an error must wait; nil: every error is reported at
	// once. It is called with mu held.
	deferred func(err error) bool

	mu      sync.Mutex
	failed  int   // the number of reported errors
	stopped error // the error that ended the copy: a lost connection or the end of ctx
}

// all copies the sources.
func (cp *copying) all(sources []string, target string, toServer bool) error {
	var err error
	if toServer {
		err = cp.upload(sources, target[1:])
	} else if sources, err = (&matcher{cp.ctx, cp.fs, cp.at}).expand("copy", sources); err == nil {
		err = cp.download(sources, target)
	}
	return cp.outcome(err)
}

// each calls one for each source. It returns the error of a single source, and reports the errors
// of several.
func (cp *copying) each(sources []string, one func(source string) error) error {
	if len(sources) == 1 {
		if err := one(sources[0]); err != nil {
			return err
		}
		return cp.fatal()
	}
	cp.bar.tree()
	q := newQueue(cp.fatal)
	for _, source := range slices.Backward(sources) { // the task that is added last runs first
		q.add(func() {
			if err := one(source); err != nil {
				cp.report("", err)
			}
		})
	}
	q.run()
	return cp.fatal()
}

// reserveLarge waits until a file of that size may be copied. The caller must call release
// afterwards.
func (cp *copying) reserveLarge(size int64) (release func()) {
	if size <= smallFile {
		return func() {}
	}
	cp.large <- struct{}{}
	return func() { <-cp.large }
}

// report prints the reason why a file was not copied. The copy then continues, unless the
// connection was lost.
func (cp *copying) report(name string, err error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	var lost *execclient.DisconnectedError
	switch {
	case cp.stopped != nil:
		return
	case cp.ctx.Err() != nil, errors.Is(err, execclient.ErrClosed), errors.As(err, &lost):
		cp.stopped = err
		return
	case cp.deferred != nil && cp.deferred(err):
		return
	}
	cp.failed++
	if name != "" {
		err = fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	cp.bar.interrupt()
	cmdutil.Messagef(cp.errs, "codex: %v\n", err)
}

// fatal returns the error that ended the copy, if any.
func (cp *copying) fatal() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.stopped
}

// warn prints once that the server cannot preserve attributes.
func (cp *copying) warn() {
	cp.warnOnce.Do(func() {
		if !cp.quiet {
			cp.bar.interrupt()
			fmt.Fprintln(cp.errs, "codex: this server does not support permissions, times or links: copies are ordinary new files")
		}
	})
}

// under appends names to a URI.
func under(uri string, names ...string) string {
	return strings.TrimSuffix(uri, "/") + strings.TrimPrefix(pathuri.Format(path.Join(append([]string{"/"}, names...)...)), "file://")
}
