package remote

import (
	"context"
	"flag"
	"io"
	"path"
	"strings"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"github.com/urfave/cli/v2"
)

const (
	// completeTime bounds a completion, from the connection to the last answer. A nearby
	// server answers within milliseconds, and a user does not wait longer for one that cannot
	// be reached.
	completeTime = time.Second
	// maxCompletions bounds the words that a shell gets. Shells ask the user before they show a
	// hundred.
	maxCompletions = 1000
)

// CompletePaths returns the paths of the server that begin with typed. If typed begins with a
// colon, so do the paths. Directories end with a slash. given has the options --url, --env and
// those for TLS. Errors are not reported: they yield no paths. A server that is reached through
// another program, such as ssh, is not asked, because that program may have side effects or ask its
// user a question.
func CompletePaths(given map[string]string, typed string, onlyDirs bool) (paths []string) {
	rest, marked := strings.CutPrefix(typed, ":")
	before, name := path.Split(rest)
	ask(given, func(ctx context.Context, client *execclient.Client) {
		at, _, err := lookAround(ctx, client)
		if err != nil {
			return
		}
		dir := before
		if dir == "" {
			dir = "."
		}
		uri, err := at.uri(dir)
		if err != nil {
			return
		}
		entries, err := client.FS().ReadDir(ctx, uri)
		if err != nil {
			return
		}
		if marked {
			before = ":" + before
		}
		for _, e := range entries {
			hidden := strings.HasPrefix(e.FileName, ".") && !strings.HasPrefix(name, ".")
			switch {
			case e.IsLossy || strings.Contains(e.FileName, "/"): // the user cannot type such a name
			case !strings.HasPrefix(e.FileName, name) || hidden || onlyDirs && !e.IsDirectory:
			case len(paths) == maxCompletions:
				return
			case e.IsDirectory:
				paths = append(paths, before+e.FileName+"/")
			default:
				paths = append(paths, before+e.FileName)
			}
		}
	})
	return paths
}

// CompleteHandles returns the handles of the user's detached processes that begin as typed. Like
// CompletePaths, it reports no errors.
func CompleteHandles(given map[string]string) (found []string) {
	ask(given, func(ctx context.Context, client *execclient.Client) {
		list, err := client.ListDetached(ctx)
		if err != nil {
			return
		}
		for _, p := range list[:min(len(list), maxCompletions)] {
			found = append(found, handleOf(p))
		}
	})
	return found
}

// ask connects to the server that the options name and calls f. It does nothing if that would
// start another program.
func ask(given map[string]string, f func(context.Context, *execclient.Client)) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	for _, name := range []string{"url", "env", "ca", "client-cert", "client-key"} {
		set.String(name, "", "")
		if value := given[name]; value != "" {
			if set.Set(name, value) != nil {
				return
			}
		}
	}
	c := cli.NewContext(&cli.App{Writer: io.Discard, ErrWriter: io.Discard}, set, nil)
	spec, err := chooseServer(c)
	if err != nil || spec.Kind == execenv.Stdio || spec.Kind == execenv.SSH {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	client, err := connectTo(ctx, c, spec, nil)
	if err != nil {
		return
	}
	defer client.Close()
	f(ctx, client)
}
