package soak

import (
	"context"
	"fmt"
	"math/rand/v2"

	"codex.internal/pkg/execclient"
)

// turn is a part of a client's work: a few requests. It checks the responses, and leaves no
// resources.
type turn struct {
	name   string
	weight int // number of times that it is in a deck: see dealt
	do     func(context.Context, *visit) error
}

// visit is one turn of a worker.
type visit struct {
	*worker
	dir string // its own empty directory
}

// turns are all turns. Together they call every method: see judge.
var turns = []turn{
	{"command", 8, plainCommand},
	{"command, sandboxed", 16, sandboxedCommand},
	{"command, read-only", 8, readOnlyCommand},
	{"input and output", 6, inputAndOutput},
	{"much output", 3, muchOutput},
	{"terminal", 4, terminal},
	{"descendants", 4, descendants},
	{"left to the session", 3, leftToTheSession},
	{"long poll", 4, longPoll},
	{"limits", 3, limits},
	{"login shell", 2, loginShell},
	{"detached", 3, detached},
	{"refusals", 4, refusals},
	{"environment", 4, environment},
	{"capabilities", 3, capabilities},
	{"files", 8, func(ctx context.Context, v *visit) error { return files(ctx, v, v.client.FS()) }},
	{"files, sandboxed", 8, func(ctx context.Context, v *visit) error { return files(ctx, v, v.sandboxed()) }},
	{"streams", 4, func(ctx context.Context, v *visit) error { return streams(ctx, v, v.client.FS()) }},
	{"streams, sandboxed", 4, func(ctx context.Context, v *visit) error { return streams(ctx, v, v.sandboxed()) }},
	{"archives", 3, func(ctx context.Context, v *visit) error { return archives(ctx, v, v.client.FS()) }},
	{"archives, sandboxed", 3, func(ctx context.Context, v *visit) error { return archives(ctx, v, v.sandboxed()) }},
	{"watch", 3, func(ctx context.Context, v *visit) error { return watch(ctx, v, v.client.FS()) }},
	{"watch, sandboxed", 3, func(ctx context.Context, v *visit) error { return watch(ctx, v, v.sandboxed()) }},
	{"watch what is missing", 3, watchMissing},
	{"http", 4, webRequests},
	{"http, abandoned", 3, abandonedRequest},
	{"tunnel", 4, tunnel},
	{"tunnel, cut", 4, cutTunnel},
	{"tunnel to a client", 3, listening},
	{"tunnel into a sandbox", 3, tunnelInside},
	{"ports", 2, ports},
	{"network proxy", 3, proxied},
}

// dealt returns the turn with a number. The turns are in decks, which the seed shuffles. Each deck
// contains a turn as often as its weight says, so that even a short soak calls every method.
func dealt(seed uint64, number int) turn {
	var deck []turn
	for _, t := range turns {
		for range t.weight {
			deck = append(deck, t)
		}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(number/len(deck))))
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck[number%len(deck)]
}

// sandbox returns a sandbox in which the worker's directory is writable.
func (v *visit) sandbox() []byte { return execclient.WorkspaceSandbox(v.ws) }

// sandboxed returns the server's file system under that sandbox.
func (v *visit) sandboxed() *execclient.FS { return v.client.FS().WithSandbox(v.sandbox()) }

// id returns a name that is unique in this soak.
func (v *visit) id(prefix string) string {
	v.count++
	return fmt.Sprintf("%s-%d-%d", prefix, v.n, v.count)
}

// expect returns an error if a value is not the expected one.
func expect[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	text := fmt.Sprintf("%v", got)
	return fmt.Errorf("%s: %.300q, not %.300q", what, text, fmt.Sprintf("%v", want))
}
