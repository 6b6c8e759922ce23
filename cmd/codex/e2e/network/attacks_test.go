package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// one returns the words of one action of an attack: its name and arguments.
func one(words ...string) []string { return words }

// get returns a request for a URL, with the matching Host header.
func get(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return "GET " + url + " HTTP/1.1\r\nHost: " + host[strings.LastIndexByte(host, '@')+1:] + "\r\n\r\n"
}

// attack is an attack by a sandboxed command.
type attack struct {
	name  string
	allow []string // patterns of permitted hosts; none: allowed.test
	words [][]string
	// reaches are the packets that may leave the network. All go to allowed hosts.
	reaches []string
	// never are texts that no service may receive.
	never []string
	// control is a variant of the attack that succeeds under the same policy. If there is none,
	// words succeed without a sandbox. leaves is the packet that must then leave the network; "":
	// the output shows the success.
	control []string
	leaves  string
}

// Packets to the allowed host.
const (
	query4 = "udp " + resolver + ":53"
	web4   = "tcp " + resolver + ":80"
	tls4   = "tcp " + resolver + ":443"
)

var everyHost = []string{"*"}

// viaHTTPControl is a request that every policy in this file allows.
var viaHTTPControl = one("http", "1", "GET http://allowed.test/control HTTP/1.1\r\n\r\n")

// sockets are attacks that bypass the proxy.
var sockets = []attack{
	{name: "TCP to another host", words: [][]string{one("tcp", other+":22"), one("tcp", other+":5432")},
		leaves: "tcp " + other + ":22"},
	{name: "TCP by IPv6", words: [][]string{one("tcp", "[2606:4700::1111]:22")}, leaves: "tcp [2606:4700::1111]:22"},
	{name: "TCP by IPv4 within IPv6", words: [][]string{one("tcp", "[::ffff:"+other+"]:22")}, leaves: "tcp " + other + ":22"},
	{name: "TCP to the address of an allowed name", words: [][]string{one("tcp", resolver+":22"), one("tcp", resolver+":5432")},
		leaves: "tcp " + resolver + ":22"},
	{name: "metadata service", words: [][]string{
		one("plain", "169.254.169.254:80", get("http://169.254.169.254/latest/meta-data/")), one("plain",
			"[::ffff:169.254.169.254]:80", "GET / HTTP/1.0\r\n\r\n"),
		one("tcp", "169.254.169.254:5432"), one("plain", "[64:ff9b::a9fe:a9fe]:80", "GET / HTTP/1.0\r\n\r\n"),
	}, leaves: "tcp 169.254.169.254:80"},
	{name: "UDP", words: [][]string{one("udp", other+":123"), one("udp", "[2606:4700::1111]:123"), one("udp",
		"[::ffff:"+other+"]:123"), one("udp", other+":443")},
		leaves: "udp " + other + ":123"},
	{name: "UDP to an allowed host", words: [][]string{one("udp", resolver+":443"), one("udp", resolver+":853")},
		leaves: "udp " + resolver + ":443"},
	{name: "multicast", words: [][]string{one("udp", "224.0.0.251:5353"), one("udp", "239.255.255.250:1900")},
		leaves: "udp 224.0.0.251:5353"},
	{name: "ICMP", words: [][]string{one("raw", "3", other), one("raw", "2", other)}, leaves: "protocol 1 to " + other},
	{name: "packet socket", words: [][]string{one("packet")}, leaves: "ether type 0x88b5"},
	{name: "TCP Fast Open", words: [][]string{one("fast open", other+":22"), one("fast open", other+":1")},
		leaves: "tcp " + other + ":22"},
	{name: "bound to an interface", words: [][]string{one("bind device", other)}, leaves: "udp " + other + ":99"},
	{name: "addresses that stand for names", allow: everyHost, words: [][]string{one("tcp", "198.18.9.9:22"), one("tcp",
		"[fd9c:4e1b:a367::c612:909]:22"), one("tcp", "[fd9c:4e1b:a367::1]:80"), one("tls", "[fd9c:4e1b:a367::c612:909]:443", "",
		"allowed.test"), one("socks", "address", "198.18.9.9", "22"), one("socks", "address", "fd9c:4e1b:a367::c612:909", "22"),
		one("connect", "[fd9c:4e1b:a367::c612:909]:22")}, control: one("tcp", "allowed.test:22"), leaves: "tcp " + resolver + ":22"},
	{name: "other resolvers", words: [][]string{one("tcp", "9.9.9.9:853"), one("tls", "1.1.1.1:443", "cloudflare-dns.com",
		"cloudflare-dns.com")},
		leaves: "tcp 9.9.9.9:853"},
	{name: "TLS without a name", words: [][]string{one("tls", other+":443", "", "allowed.test")}, leaves: "tcp " + other + ":443"},
	{name: "TLS with an address in place of a name", words: [][]string{one("tls", other+":443", other, "allowed.test")},
		leaves: "tcp " + other + ":443"},
	{name: "TLS for a denied name", words: [][]string{one("tls", other+":443", "denied.test", "allowed.test"), one("tls",
		resolver+":443", "denied.test", "allowed.test")},
		leaves: "tcp " + other + ":443"},
	{name: "HTTP for a denied name", words: [][]string{one("plain", other+":80", "GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n"),
		one("plain", resolver+":80", "GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n"),
		one("plain", other+":80", "GET / HTTP/1.0\r\n\r\n"), one("plain", other+":80",
			"CONNECT denied.test:22 HTTP/1.1\r\n\r\n")}, leaves: "tcp " + other + ":80"},
	{name: "TCP over several paths", words: [][]string{one("several paths", other+":22"), one("several paths",
		"[2606:4700::1111]:22")}, leaves: "tcp " + other + ":22"},
	{name: "UDP-Lite", words: [][]string{one("UDP-Lite", other)}, leaves: "protocol 136 to " + other},
	{name: "descriptors left over", words: [][]string{one("descriptors")}},
	{name: "another network", words: [][]string{one("namespaces")}},
	{name: "routes", words: [][]string{one("routes")}},
	{name: "sockets of resolvers", words: [][]string{append(one("unix"), resolverSockets...), one("getent", "denied.test")}},
	{name: "other families", words: otherFamilies()},
}

// otherFamilies returns actions that create sockets of each family and type except IPv4 and IPv6,
// and raw IP sockets.
func otherFamilies() (words [][]string) {
	for family := range 46 {
		kinds := []int{syscall.SOCK_STREAM, syscall.SOCK_DGRAM, syscall.SOCK_RAW, syscall.SOCK_SEQPACKET}
		if family == syscall.AF_INET || family == syscall.AF_INET6 {
			kinds = []int{syscall.SOCK_RAW}
		}
		for _, kind := range kinds {
			words = append(words, one("socket", fmt.Sprint(family), fmt.Sprint(kind), "0"), one("socket", fmt.Sprint(family),
				fmt.Sprint(kind), "255"))
		}
	}
	return words
}

// tunnels are attacks that carry data in DNS names.
var tunnels = []attack{
	{name: "long labels", words: queries(strings.Repeat("a", 63)+"."+strings.Repeat("b", 63)+"."+strings.Repeat("c",
		63)+".denied.test.", resolver+":53"), leaves: query4},
	{name: "any server", words: queries("data.denied.test.", other+":53"), leaves: "udp " + other + ":53"},
	{name: "IPv6 server", words: queries("data.denied.test.", "[2606:4700::1111]:53"), leaves: "udp [2606:4700::1111]:53"},
	{name: "below an allowed name", words: queries("data.allowed.test.", resolver+":53"), leaves: query4,
		allow: []string{"**.allowed.test"}},
	{name: "many names", words: [][]string{one("many names", "denied.test"), one("many names", "allowed.test")}, leaves: query4,
		allow: []string{"**.allowed.test"}},
	{name: "names of addresses", words: queries("data.1.2.0.192.in-addr.arpa.", resolver+":53"), leaves: query4, allow: everyHost},
	{name: "names of this machine", words: queries("data.localhost.", resolver+":53"), leaves: query4, allow: everyHost},
	{name: "every name", words: queries("data.allowed.test.", resolver+":53"), leaves: query4, allow: everyHost},
	{name: "denied names by the proxies", words: [][]string{
		one("http", "1", get("http://data.denied.test/")), one("connect", "data.denied.test:443", "data.denied.test",
			"data.denied.test"), one("socks", "name", "data.denied.test", "80"),
	}, control: viaHTTPControl, leaves: web4},
}

// queries returns queries to a server of all record types that DNS tunnels use.
func queries(name, server string) (words [][]string) {
	for _, kind := range []string{"1", "5", "10", "15", "16", "28", "33", "64", "65", "252", "255", "65399"} {
		words = append(words, one("query", server, name, kind))
	}
	return words
}

// localSpellings are non-public addresses, as hosts of URLs and as names.
var localSpellings = []string{
	"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0177.1", "017700000001", "127.0.0.1.",
	"0", "0.0.0.0",
	"localhost", "LOCALHOST.", "x.localhost", "localhost.localdomain", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
	"[::127.0.0.1]",
	"[0:0:0:0:0:ffff:7f00:0001]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::1]",
	"[fe80::1%25lo]", "[::1%lo]",
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
	"0251.254.0xa9fe",
	"[::ffff:a9fe:a9fe]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "10.0.0.5",
	"012.0.0.5", "100.100.100.200",
	"\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1", "%31%32%37.0.0.1",
	"127.0.0.1%2f.allowed.test", "127.0.0.1%00.allowed.test",
	"198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255",
}

// byEachProxy returns actions that request a host through each kind of proxy.
func byEachProxy(host string) [][]string {
	name := strings.Trim(host, "[]")
	return [][]string{
		one("http", "1", get("http://"+host+"/spelled")), one("http", "1", "GET /spelled HTTP/1.1\r\nHost: "+host+"\r\n\r\n"),
		one("connect", host+":80"), one("socks", "name", host, "80"), one("socks", "name", name, "80"),
	}
}

// spellings returns attacks that request a non-public address from a proxy.
func spellings() []attack {
	words := [][]string{
		one("socks", "address", "127.0.0.1", "80"), one("socks", "address", "::1", "80"), one("socks", "address",
			"::ffff:127.0.0.1", "80"),
		one("socks", "address", "169.254.169.254", "80"), one("socks", "address", "64:ff9b::a9fe:a9fe", "80"), one("socks",
			"address", "0.0.0.0", "80"),
	}
	for _, host := range localSpellings {
		words = append(words, byEachProxy(host)...)
	}
	var list []attack
	for part := range slices.Chunk(words, 60) {
		list = append(list, attack{
			name: fmt.Sprintf("spellings %d", len(list)), allow: everyHost, words: part, reaches: []string{query4},
			never:   []string{"machine", "proxy"},
			control: viaHTTPControl, leaves: web4,
		})
	}
	for _, name := range []string{"private.test", "metadata.test", "mixed.test", "mapped.test", "translated.test", "made-up.test"} {
		list = append(list, attack{
			name: "the address of " + name, allow: []string{"*.test"}, words: append(byEachProxy(name), one("tcp", name+":80"),
				one("tls", name+":443", name, name)),
			reaches: []string{query4}, never: []string{"machine", "proxy"}, control: viaHTTPControl, leaves: web4,
		})
	}
	return list
}

// connections are attacks that name an allowed host but try to reach another one.
var connections = []attack{
	{name: "another name in TLS and in HTTP", words: [][]string{
		one("connect", "allowed.test:443", "denied.test", "denied.test"), one("tls", other+":443", "allowed.test", "denied.test"),
		one("connect", "denied.test:443", "allowed.test", "allowed.test"),
	}, reaches: []string{query4, tls4}},
	{name: "absolute form and Host", words: [][]string{
		one("http", "1", "GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), one("http", "1",
			"GET http://allowed.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"),
		one("http", "1", "GET http://allowed.test@denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), one("http", "1",
			"GET http://allowed.test\\@denied.test/ HTTP/1.1\r\n\r\n"),
		one("http", "1", "GET http://denied.test\\.allowed.test/ HTTP/1.1\r\n\r\n"), one("http", "1",
			"GET http://denied.test#.allowed.test/ HTTP/1.1\r\n\r\n"),
		one("http", "1", "GET denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), one("http", "1",
			"GET @denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
		one("http", "1", "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: denied.test\r\n\r\n"), one("http", "1",
			"GET / HTTP/1.1\r\nHost: denied.test allowed.test\r\n\r\n"),
		one("http", "1", "CONNECT denied.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), one("http", "1",
			"CONNECT allowed.test:80@denied.test:80 HTTP/1.1\r\n\r\n"),
	}, reaches: []string{query4, web4}, never: []string{"denied"}},
	{name: "one connection, several hosts", words: [][]string{
		one("http", "3", get("http://allowed.test/1")+get("http://denied.test/2")+get("http://allowed.test/3")),
		one("http", "2", "GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: denied.test\r\n\r\n"),
		one("http", "2", get("http://allowed.test/1")+"CONNECT denied.test:80 HTTP/1.1\r\n\r\n"),
		one("plain", other+":80", "GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: denied.test\r\n\r\n"),
	}, reaches: []string{query4, web4}, never: []string{"denied"}},
	{name: "smuggled requests", words: smuggled(), reaches: []string{query4, web4}, never: []string{"denied", "smuggled"}},
	{name: "other ports", allow: []string{"allowed.test:80"}, words: [][]string{
		one("connect", "allowed.test:22"), one("connect", "allowed.test:5432"), one("socks", "name", "allowed.test", "22"),
		one("tcp", "allowed.test:22"), one("tcp", "allowed.test:443"),
		one("http", "1", get("http://allowed.test:443/")), one("plain", other+":80", "GET / HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n"),
	}},
	{name: "no ports", words: [][]string{
		one("connect", "allowed.test:0"), one("connect", "allowed.test:65616"), one("connect", "allowed.test:-1"), one("connect",
			"allowed.test: 22"), one("connect", "denied.test:"),
	}, reaches: []string{query4, "tcp " + resolver + ":0"}},
	{name: "SOCKS commands", words: [][]string{one("socks command", "2"), one("socks command", "3"), one("socks command", "0"),
		one("socks command", "240")}},
	{name: "rebinding", allow: []string{"rebinding.test", "allowed.test"}, words: [][]string{
		one("connect", "rebinding.test:80"), one("connect", "rebinding.test:80"), one("http", "1", get("http://rebinding.test/")),
		one("tcp", "rebinding.test:80"),
	}, reaches: []string{query4, web4}},
}

func init() {
	for i := range connections {
		connections[i].control, connections[i].leaves = viaHTTPControl, web4
	}
}

// smuggled returns requests whose end the proxy and a server could interpret differently.
func smuggled() (words [][]string) {
	const begin, end = "POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n",
		"GET http://denied.test/smuggled HTTP/1.1\r\nHost: denied.test\r\n\r\n"
	for _, head := range []string{
		"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Content-Length: 6\r\nContent-Length: 0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", "Content-Length: +0\r\n\r\n", "Content-Length: 0, 0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
		"X: y\rTransfer-Encoding: chunked\r\n\r\n", "X: y\nContent-Length: 0\r\n\r\n", " X: y\r\n\r\n",
		"Content-Length: 0\r\n\r\n", "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n",
		"Connection: Content-Length\r\nContent-Length: 0\r\n\r\n",
		"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	} {
		words = append(words, one("http", "3", begin+head+end))
	}
	return words
}

// run makes a sandboxed command carry out the words, and returns its output.
func (w *world) run(t *testing.T, url string, allow []string, words ...[]string) string {
	t.Helper()
	if len(allow) == 0 {
		allow = []string{"allowed.test"}
	}
	self, err := os.Executable()
	harness.Must(t, err)
	arguments := []string{"remote", "run", "--url", url, "--cwd", w.workspace, "--sandbox", "workspace-write", "-e",
		attackVariable + "=" + encode(t, words)}
	// With the race detector, the attacker would otherwise wait for a second when it ends.
	arguments = append(arguments, "-e", "GORACE=atexit_sleep_ms=0")
	for _, pattern := range allow {
		arguments = append(arguments, "--allow-domain", pattern)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(harness.Codex, append(arguments, "--", self)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.inside.run(cmd); err != nil || out.Len() == 0 {
		t.Fatalf("got error %v, stdout %q, stderr %q; want no error, out.Len() other than 0", err, out.String(), errs.String())
	}
	return out.String()
}

// runFree carries out the words without a sandbox.
func (w *world) runFree(t *testing.T, words ...[]string) string {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	var out bytes.Buffer
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), attackVariable+"="+encode(t, words))
	cmd.Stdout = &out
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	harness.Must(t, err)
	defer unix.Close(pair[0])
	leftOver := os.NewFile(uintptr(pair[1]), "left over")
	defer leftOver.Close()
	cmd.ExtraFiles = []*os.File{leftOver}
	harness.Must(t, w.inside.run(cmd))
	return out.String()
}

func encode(t *testing.T, words [][]string) string {
	t.Helper()
	text, err := json.Marshal(words)
	harness.Must(t, err)
	return string(text)
}

// holds checks that an attack reaches only allowed hosts.
func (w *world) holds(t *testing.T, url string, a attack) {
	t.Helper()
	w.left()
	w.noted()
	result := w.run(t, url, a.allow, a.words...)
	for _, packet := range w.left() {
		if !slices.Contains(a.reaches, packet) {
			t.Errorf("%s left the sandbox", packet)
		}
	}
	for _, event := range w.noted() {
		for _, part := range append([]string{"machine"}, a.never...) {
			if strings.Contains(event, part) {
				t.Errorf("arrived: %s", event)
			}
		}
	}
	if a.leaves == "" && strings.Contains(result, through) {
		t.Error("it got through")
	}
	if t.Failed() {
		t.Logf("the attacker says\n%s", result)
	}
}

// works checks that an attack could have succeeded, because its control succeeds.
func (w *world) works(t *testing.T, url string, a attack) {
	t.Helper()
	w.left()
	w.noted()
	var result string
	if a.control != nil {
		result = w.run(t, url, a.allow, a.control)
	} else {
		result = w.runFree(t, a.words...)
	}
	left := w.left()
	switch {
	case a.leaves != "" && !slices.Contains(left, a.leaves):
		t.Errorf("control: no %s has left, but %q: %s", a.leaves, left, result)
	case a.leaves == "" && !strings.Contains(result, through):
		t.Errorf("control: nothing got through: %s", result)
	}
}

// TestUpstreamProxies: only the upstream proxy can resolve Internet names. The proxy does not ask
// it for a name that it may interpret as an address or as its own machine.
func TestUpstreamProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		env = append(env, name+"=http://"+resolver+":3128")
	}
	url := w.server(t, env)
	var words [][]string
	for _, host := range localSpellings {
		words = append(words, byEachProxy(host)...)
		words = append(words, one("tcp", host+":22"), one("plain", other+":80", "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"))
	}
	for part := range slices.Chunk(words, 60) {
		a := attack{
			allow: everyHost, words: part, reaches: []string{query4}, never: []string{"proxy"},
			control: one("http", "1", get("http://unknown.test/")), leaves: "tcp " + resolver + ":3128",
		}
		w.holds(t, url, a)
		w.works(t, url, a)
	}
}

// TestAttacks runs attacks on the network of a sandbox. Each attack is also run where it must
// succeed. The backend need not stop requests to the proxies.
func TestAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		url := w.server(t, nil, "--sandbox-backend", backend)
		attacks := slices.Concat(sockets, tunnels)
		if backend == machine.Namespaces {
			attacks = slices.Concat(attacks, spellings(), connections)
		}
		for _, a := range attacks {
			t.Run(a.name, func(t *testing.T) {
				w.holds(t, url, a)
				w.works(t, url, a)
			})
		}
	})
}
