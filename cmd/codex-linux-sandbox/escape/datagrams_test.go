package escape

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnixDatagrams: a command without a network sends datagrams to Unix sockets of its
// own, and their errors are those of the kernel.
func TestUnixDatagrams(t *testing.T) {
	needSocketTable(t)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		if o := p.run(backend, p.opened(), "unix datagrams"); o.text != "done\n" || o.code != 0 {
			t.Errorf("%v", o)
		}
		if o := p.run(backend, p.opened(), "blocked datagrams"); o.text != "most have come true\ndone\n" || o.code != 0 {
			t.Errorf("%v", o)
		}
		must(t, unix.Unlink(p.ws+"/server"))
		inside := p.run(backend, p.opened(), "messages")
		must(t, unix.Unlink(p.ws+"/server"))
		if outside := p.run("", "", "messages"); inside.text != outside.text || inside.code != 0 {
			t.Errorf("inside:\n%v\noutside:\n%v", inside, outside)
		}
	})
}

// TestDatagramsAreExchanged: nothing that a command exchanges while the launcher sends a
// datagram leads to a server outside, nor does the first socket for datagrams that takes
// another one's place.
func TestDatagramsAreExchanged(t *testing.T) {
	needSocketTable(t)
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		host := p.ws + "/host"
		arrived := hostServer(t, unix.SOCK_DGRAM, host)
		must(t, unix.Lchown(host, p.uid, p.uid))
		const firsts = 3
		for range firsts {
			contained(t, p.run(backend, p.opened(), "first datagram", host))
		}
		contained(t, p.run(backend, p.opened(), "exchanged datagrams", host))
		if n := arrived.Load(); n > 0 {
			t.Errorf("%d datagrams have arrived", n)
		}
		for _, name := range []string{"mine", "x", "y"} {
			must(t, unix.Unlink(p.ws+"/"+name))
		}
		works(t, p.run("", "", "first datagram", host))
		works(t, p.run("", "", "exchanged datagrams", host))
	})
}
