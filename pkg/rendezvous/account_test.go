package rendezvous

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

func TestAccountCounts(t *testing.T) {
	accounts := newAccounts(quota{sockets: 1, streams: 2, bytes: 1, frames: 1, burst: 1, calls: 1, callBurst: 1})
	a, ok := accounts.use("id", (*account).addSocket)
	if !ok {
		t.Fatal("the first socket is refused")
	}
	if again, ok := accounts.use("id", (*account).addSocket); ok || again != a {
		t.Error("a socket beyond the limit")
	}
	for i := range 3 {
		if ok := a.addStream(); ok != (i < 2) {
			t.Errorf("stream %d: %v", i, ok)
		}
	}
	accounts.sweep()
	if accounts.find("id") != a {
		t.Error("forgotten while it is used")
	}
	a.removeSocket()
	a.removeStream()
	a.removeStream()
	if _, ok := accounts.use("id", func(a *account) bool { return a.calls.Allow() && a.hold() }); !ok {
		t.Error("the first call is refused")
	}
	a.release()
	accounts.sweep()
	if accounts.find("id") != a {
		t.Error("forgotten before it could be called again")
	}
	accounts.use("other", func(a *account) bool { return true })
	accounts.sweep()
	if accounts.find("other") != nil {
		t.Error("kept for nothing")
	}
}

func TestAdmit(t *testing.T) { synctest.Test(t, testAdmit) }

func testAdmit(t *testing.T) {
	a := newAccount(quota{bytes: 10 + 2*frameBytes, frames: 100, burst: 100})
	ended, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	done, err := a.up.admit(ended, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.up.admit(ended, 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("11 bytes: %v", err)
	}
	if _, err := a.down.admit(context.Background(), 10); err != nil {
		t.Errorf("the other direction: %v", err)
	}
	done()
	if _, err := a.up.admit(context.Background(), 10); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
}

// TestAdmitSmallFrames uses frames with almost no content. They still count for the memory that
// each frame takes.
func TestAdmitSmallFrames(t *testing.T) { synctest.Test(t, testAdmitSmallFrames) }

func testAdmitSmallFrames(t *testing.T) {
	const most = 20
	a := newAccount(quota{bytes: most * frameBytes, frames: 100, burst: 100})
	ended, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	n := 0
	for ; n < 2*most; n++ {
		if _, err := a.up.admit(ended, 0); err != nil {
			break
		}
	}
	if n != most {
		t.Errorf("%d frames are on their way, want %d", n, most)
	}
}

func TestFrameRate(t *testing.T) {
	a := newAccount(quota{bytes: 10 + 3*frameBytes, frames: 1, burst: 3})
	a.up.frames.SetLimit(1.0 / 3600) // so that no quota is refilled during the test
	for i := range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if _, err := a.up.admit(ctx, 1); (err == nil) != (i < 3) {
			t.Errorf("frame %d: %v", i, err)
		}
		cancel()
	}
}

func TestMeter(t *testing.T) {
	var m meter
	start := time.Unix(1_800_000_000, 0) // where a window begins
	m.add(500, start)
	m.add(500, start.Add(meterWindow-1))
	for _, tt := range []struct {
		at   time.Duration
		want uint64
	}{
		{meterWindow - 1, 0}, {meterWindow, 100}, {2*meterWindow - 1, 100}, {2 * meterWindow, 0},
	} {
		if frames, bytes, perSecond := m.read(start.Add(tt.at)); frames != 2 || bytes != 1000 || perSecond != tt.want {
			t.Errorf("after %v: %d %d %d", tt.at, frames, bytes, perSecond)
		}
	}
	m.add(500, start.Add(2*meterWindow))
	if _, _, perSecond := m.read(start.Add(5 * meterWindow)); perSecond != 0 {
		t.Errorf("long after: %d", perSecond)
	}
}

// TestCallRate: a token with too many calls is named, for the client and in the log.
func TestCallRate(t *testing.T) {
	var log lockedBuffer
	s := start(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.Server.tokens.quota.calls, s.Server.tokens.quota.callBurst = 1, 3
	token, err := s.Server.opts.Tokens.Authenticate(s.token)
	if err != nil {
		t.Fatal(err)
	}
	id := token.ID
	for i := range 5 {
		a := s.post(s.token, "/cloud/environment/env/connect", "{}")
		if limited := a.Error.Code == "rate_limited" && a.status == 429; limited != (i >= 3) {
			t.Errorf("call %d: %s", i, a.body)
		} else if limited && !strings.Contains(a.body, "with the token "+id) {
			t.Errorf("call %d: %s does not name the token %s", i, a.body, id)
		}
	}
	if want := "code=rate_limited token=" + id; !strings.Contains(log.String(), want) {
		t.Errorf("got the log %s, want %s", log.String(), want)
	}
	other, _ := newToken(t, s.tokens, RoleBoth, "*")
	if a := s.post(other, "/cloud/environment/env/connect", "{}"); a.status == 429 {
		t.Error("another token has no calls left either")
	}
	if w := s.get("/status", "Authorization", "Bearer "+s.token); w.Code != 429 || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("the status page: %d %v", w.Code, w.Header())
	}
}

// TestValidationsAreOfTheEnvironment: harnesses of one environment cause as many validations as
// permitted. Validations for another environment, and the other calls of the same executor, still
// succeed.
func TestValidationsAreOfTheEnvironment(t *testing.T) {
	s := start(t, Options{})
	s.Server.tokens.quota.calls, s.Server.tokens.quota.callBurst = 1, 3
	s.environments.quota.calls, s.environments.quota.callBurst = 1, 3
	for i := range 5 {
		a := s.post(s.token, "/cloud/environment/env/validate", "{}")
		if limited := a.Error.Code == "rate_limited" && a.status == 429; limited != (i >= 3) {
			t.Errorf("validation %d: %s", i, a.body)
		}
	}
	for _, path := range []string{"other/validate", "env/connect"} {
		if a := s.post(s.token, "/cloud/environment/"+path, "{}"); a.status == 429 {
			t.Errorf("%s: got %s, want a.status other than 429", path, a.body)
		}
	}
	// A token that has nothing to validate in an environment uses up its own calls.
	stranger, _ := newToken(t, s.tokens, RoleHarness, "third")
	for range 5 {
		s.post(stranger, "/cloud/environment/third/validate", "{}")
	}
	if a := s.post(s.token, "/cloud/environment/third/validate", "{}"); a.status == 429 {
		t.Errorf("a token for clients uses up the validations: %s", a.body)
	}
}

// TestNoFramesCount: dropped messages count against the limits too, because they must be parsed.
func TestNoFramesCount(t *testing.T) {
	s := start(t, Options{})
	const burst = 1000
	for _, quota := range []*quota{&s.Server.tokens.quota, &s.environments.quota} {
		quota.frames, quota.burst = 1, burst
	}
	x, h := s.executor("env"), s.harness("env")
	for range burst {
		for _, p := range []*peer{x, h} {
			if err := p.ws.WriteMessage(websocket.TextMessage, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range []*lane{&s.environments.find("env").down, &s.Server.tokens.find(TokenID(s.token)).up} {
		eventually(t, func() bool { return l.frames.Tokens() < burst/2 }) // one more call is permitted each second
	}
}
