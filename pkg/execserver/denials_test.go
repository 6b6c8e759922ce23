package execserver

import (
	"fmt"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/egress"
)

func TestDenialsAreCounted(t *testing.T) {
	var x denials
	report := egress.Report{Verdict: egress.Block, Protocol: egress.HTTP, Host: "a.test", Port: 80, Reason: egress.ReasonDenied}
	x.add(report)
	passed := report
	passed.Verdict = egress.Pass
	x.add(passed)
	x.add(report)
	want := execproto.Denial{Kind: "network", Host: "a.test", Port: 80, Protocol: "http", Count: 2, Reason: "denied"}
	if got := x.list(); len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %v", got, want)
	}
	report.Verdict = egress.Later
	for i := range maxDenials + 2 {
		report.Host = fmt.Sprintf("h%d.test", i)
		x.add(report)
	}
	got := x.list()
	if last := (execproto.Denial{Kind: "network", Count: 3}); len(got) != maxDenials+1 || got[0] != want || got[maxDenials] != last {
		t.Errorf("%d denials, the last is %v", len(got), got[len(got)-1])
	}
}

// TestDenialsComeWithTheExit: process/exited lists the hosts that the network proxy refused, so
// that a client knows why a command failed.
func TestDenialsComeWithTheExit(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	const script = `exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"; printf 'GET http://a.test/ HTTP/1.1\r\nConnection: close\r\n\r\n' >&3; cat <&3`
	p.call("process/start", object{
		"processId": "a", "argv": []string{"/bin/bash", "-c", script}, "cwd": "file:///", "tty": false, "env": object{"PATH": "/usr/bin:/bin"},
		"networkProxy": object{"proxy": object{
			"enabled": true, "enableSocks5": false, "enableSocks5Udp": false, "allowUpstreamProxy": false,
			"dangerouslyAllowAllUnixSockets": false, "mode": "full", "allowLocalBinding": false,
		}},
	}, nil)
	exited := p.wait(func(m message) bool { return m.Method == execproto.NotifyProcessExited })
	n, err := execproto.Decode[execproto.ExitedNotification](exited.Params)
	want := execproto.Denial{Kind: "network", Host: "a.test", Port: 80, Protocol: "http", Count: 1, Reason: "not_allowed",
		Rule: "unlisted", Detail: "no pattern allows it, and no user can be asked"}
	if err != nil || len(n.Denials) != 1 || n.Denials[0] != want {
		t.Errorf("got %+v, %v", n, err)
	}
}
