package remote

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteSyncCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "sync", Usage: "synchronize a directory to or from the server", ArgsUsage: "SOURCE TARGET",
		Description: `Copies the files of the directory SOURCE that are missing in the directory TARGET or
differ there. One of the two begins with a colon and is the server's. Files are equal
if their sizes and times are, or with --checksum their contents. Copies get the
permissions and times of their source. TARGET is created if it does not exist.
Unlike rsync, SOURCE and SOURCE/ mean the same: what is in the directory.

With --delete, files that only TARGET has are removed. Files that --exclude or --git
leaves out are never removed, and no file is if a part of SOURCE could not be read.
A root directory, a home directory and a mount point need --force, too.

With --verbose, each file that is copied or removed is printed on standard error.

With --watch it then continues until Ctrl-C, and copies and removes files that change in
SOURCE. Changes in TARGET are not detected.

Examples:
   codex remote sync --git . :~/project
   codex remote sync --delete --exclude '*.o' :build/out ./out
   codex remote sync --watch --git --delete . :~/project
   codex remote sync --dry-run --delete ./site :/srv/site`,
		Flags: serverFlags(
			cmdutil.BothFiles,
			&cli.BoolFlag{Name: "delete", Usage: "remove files that the source does not have"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "with --delete: accept a root directory, a home directory or a mount point as TARGET"},
			&cli.StringSliceFlag{Name: "exclude", Usage: "leave out names that match `PATTERN`, or paths if it has a slash; may be repeated"},
			&cli.BoolFlag{Name: "checksum", Usage: "compare contents in place of sizes and times"},
			&cli.BoolFlag{Name: "git", Usage: "leave out .git and the files that .gitignore files of the source name"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "keep copying changes of the source until Ctrl-C; a local source needs Linux"},
			&cli.BoolFlag{Name: "archive", Aliases: []string{"a", "r"}, Usage: "accepted for compatibility with rsync; directories are always copied with times, permissions and links"},
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "print what would be copied and removed, and change nothing"},
		),
		Action: func(c *cli.Context) error { return syncFiles(c, s) },
	}
}

func syncFiles(c *cli.Context, s cmdutil.Streams) error {
	if c.NArg() != 2 {
		return cmdutil.Usagef("sync takes a source and a target, one of which begins with a colon: codex remote sync . :~/project")
	}
	source, target := c.Args().Get(0), c.Args().Get(1)
	if strings.HasPrefix(source, ":") == strings.HasPrefix(target, ":") {
		return cmdutil.Usagef("sync is between this machine and the server: either the source or the target begins with a colon%s",
			environmentHint("sync", c.Args().Slice()))
	}
	if c.Bool("watch") && c.Bool("dry-run") {
		return cmdutil.Usagef("--watch and --dry-run exclude each other: a dry run ends after one look")
	}
	options := copyOptions{recursive: true, preserve: true, patterns: c.StringSlice("exclude")}
	if err := options.check(); err != nil {
		return err
	}
	began := false // with --watch: the first round is complete
	once := func() error { return syncOnce(c, s, options, &began) }
	if c.Bool("watch") {
		return reconnecting(c.Context, s.Err, &began, once)
	}
	return once()
}

// syncOnce synchronizes in one session.
func syncOnce(c *cli.Context, s cmdutil.Streams, options copyOptions, began *bool) error {
	return withFiles(c, func(fs *execclient.FS, at places) error {
		if !fs.HasArchives() {
			return fmt.Errorf("this server cannot list a tree with its times: use codex remote cp -rp: %w", execclient.ErrUnsupported)
		}
		sync := &syncing{
			copying: &copying{
				ctx: c.Context, fs: fs, at: at, options: options, quiet: isQuiet(c),
				bar: newProgress(s.Err, isQuiet(c)), errs: s.Err,
			},
			out: s.Out, removes: c.Bool("delete"), force: c.Bool("force"), verbose: isVerbose(c), checksums: c.Bool("checksum"), git: c.Bool("git"), dry: c.Bool("dry-run"),
			follows: c.Bool("watch"), began: began, most: maxListed,
		}
		sync.deferred = sync.defers
		err := sync.run(c.Args().Get(0), c.Args().Get(1))
		sync.bar.finish()
		if err = sync.outcome(err); err == nil && sync.bar == nil && !sync.quiet && !sync.dry && !sync.follows {
			fmt.Fprintf(s.Err, "codex: %s\n", sync.count.summary()) // a terminal shows the progress
		}
		return err
	})
}

// outcome returns err. If err is nil, it returns an error with the number of reported failures.
func (cp *copying) outcome(err error) error {
	switch {
	case err != nil:
		return err
	case cp.failed == 1:
		return errors.New("1 file was not copied, or not with all its attributes")
	case cp.failed > 0:
		return fmt.Errorf("%d files were not copied, or not with all their attributes", cp.failed)
	}
	return nil
}

// run makes the target equal to the source.
func (y *syncing) run(source, target string) error {
	var err error
	if strings.HasPrefix(target, ":") {
		err = y.up(source, target[1:])
	} else {
		err = y.down(source[1:], target)
	}
	if err == nil {
		err = y.fatal()
	}
	return err
}

// up makes a directory of the server equal to a local one.
func (y *syncing) up(source, target string) error {
	if st, err := os.Stat(source); err != nil {
		return fmt.Errorf("sync %s: %w", source, withoutPath(err))
	} else if !st.IsDir() {
		return fmt.Errorf("sync %s: it is not a directory; copy it with codex remote cp -p", source)
	}
	uri, err := y.at.uri(target)
	if err != nil {
		return err
	}
	here, there := &localTree{y.copying, source}, &serverTree{y.copying, uri}
	if there.uri, err = y.folderOfServer(uri); err == nil {
		err = y.mayEmptyThere(there.uri)
	}
	if err != nil {
		return fmt.Errorf("sync to :%s: %w", target, withoutPath(err))
	}
	return y.begin(here, there)
}

// begin synchronizes once, or until the end of a watch.
func (y *syncing) begin(from, to tree) error {
	if y.follows {
		return y.follow(from, to)
	}
	return y.bring(from, to)
}

// folderOfServer returns the URI, with links resolved, of a directory of the server. It
// creates the directory if it is missing; in a dry run it returns "" instead.
func (y *syncing) folderOfServer(uri string) (string, error) {
	if m, err := y.fs.Stat(y.ctx, uri); err == nil && !m.IsDirectory {
		return "", errors.New("it is not a directory")
	} else if err != nil && y.dry {
		return "", nil
	}
	if err := y.fs.MkdirAll(y.ctx, uri); err != nil {
		return "", err
	}
	return y.fs.Canonicalize(y.ctx, uri)
}

// down makes a local directory equal to one of the server.
func (y *syncing) down(source, target string) error {
	uri, err := y.at.uri(source)
	if err == nil {
		uri, err = y.fs.Canonicalize(y.ctx, uri)
	}
	if err != nil {
		return fmt.Errorf("sync :%s: %w", source, withoutPath(err))
	}
	if m, err := y.fs.Stat(y.ctx, uri); err != nil {
		return fmt.Errorf("sync :%s: %w", source, withoutPath(err))
	} else if !m.IsDirectory {
		return fmt.Errorf("sync :%s: it is not a directory; copy it with codex remote cp -p", source)
	}
	here := &localTree{y.copying, filepath.Clean(target)}
	if st, err := os.Stat(target); err == nil && !st.IsDir() {
		return fmt.Errorf("sync to %s: it is not a directory", target)
	} else if err != nil && y.dry {
		here.path = ""
	} else if err := os.MkdirAll(target, 0o777); err != nil {
		return fmt.Errorf("sync to %s: %w", target, withoutPath(err))
	}
	if err := y.mayEmptyHere(here.path); err != nil {
		return fmt.Errorf("sync to %s: %w", target, err)
	}
	return y.begin(&serverTree{y.copying, uri}, here)
}

// guarded returns an error for a target of --delete that is most likely a mistake, such as that of ":/$DIR" with an
// empty variable. isMountPoint is called last.
func guarded(target, home string, isMountPoint func() bool) error {
	what := ""
	switch parent := filepath.Dir(target); {
	case parent == target:
		what = "the root directory"
	case target == home:
		what = "your home directory"
	case parent == "/home", parent == "/Users", target == "/root":
		what = "a home directory"
	case home != "" && strings.HasPrefix(home, target+string(filepath.Separator)):
		what = "a directory with home directories"
	case isMountPoint():
		what = "a mount point"
	default:
		return nil
	}
	return fmt.Errorf("--delete: this is %s, and files that the source does not have would be removed from it; give --force if you mean it", what)
}

// mayEmptyThere returns an error if files of a directory of the server must not be removed without --force. uri has
// no links and is "" if the directory does not exist.
func (y *syncing) mayEmptyThere(uri string) error {
	if !y.removes || y.force || uri == "" {
		return nil
	}
	target, err := pathuri.Parse(uri, "")
	if err != nil {
		return err
	}
	home := ""
	if y.at.home != "" {
		if real, err := y.fs.Canonicalize(y.ctx, y.at.home); err == nil {
			home = nativePath(real)
		}
	}
	return guarded(target, home, func() bool {
		a, err := y.fs.Attributes(y.ctx, uri)
		return err == nil && a.MountPoint
	})
}

// mayEmptyHere is mayEmptyThere for a local directory.
func (y *syncing) mayEmptyHere(dir string) error {
	if !y.removes || y.force || dir == "" {
		return nil
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real
	}
	home, err := os.UserHomeDir()
	if real, evalErr := filepath.EvalSymlinks(home); err == nil && evalErr == nil {
		home = real
	}
	return guarded(target, home, func() bool { return isMountPoint(target) })
}
