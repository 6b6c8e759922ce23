package escape

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestDatagramsOfAPair: a command without a network can create pairs of datagram sockets, but no other Unix
// datagram socket. The errors are the kernel's.
func TestDatagramsOfAPair(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for _, attack := range []string{"pairs of datagrams", "errors of pairs"} {
			if o := p.run(backend, p.opened(), attack); o.text != "done\n" || o.code != 0 {
				t.Errorf("%s: got %v, want done", attack, o)
			}
		}
		if o := p.run("", "", "errors of pairs"); o.text != "done\n" || o.code != 0 {
			t.Errorf("errors of pairs, outside of a sandbox: got %v, want done", o)
		}
	})
}

// TestDatagramsAreExchanged: no datagram reaches a server outside, even if a command replaces the sending
// descriptor and the address during the call.
func TestDatagramsAreExchanged(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		host := p.ws + "/host"
		arrived := hostServer(t, unix.SOCK_DGRAM, host)
		must(t, unix.Lchown(host, p.uid, p.uid))
		contained(t, p.run(backend, p.opened(), "exchanged datagrams", host))
		if n := arrived.Load(); n > 0 {
			t.Errorf("got %d datagrams outside, want none", n)
		}
		// Beside other tests the race may be lost in every round of a run.
		const tries = 10
		var control outcome
		for i := 0; i < tries && len(control.breaches()) == 0; i++ {
			control = p.run("", "", "exchanged datagrams", host)
		}
		works(t, control)
	})
}
