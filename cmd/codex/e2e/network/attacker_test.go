package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// attackVariable makes this program act as the attacker. Its value is a JSON list of actions. Each
// action is a list that contains the name of one of attacks and its arguments.
const attackVariable = "E2E_NETWORK_ATTACKS"

// through begins the line about an attack that received an answer.
const through = "through: "

// Timeouts of the attacker. A refusal arrives at once. If packets are dropped, an attempt takes
// dialTime.
const (
	dialTime   = 2 * time.Second
	answerTime = 300 * time.Millisecond
)

var attacks = map[string]func(arguments []string) (string, error){
	"tcp": tcp, "udp": udp, "query": query, "many names": manyNames, "socket": socket, "raw": raw, "packet": packet,
	"fast open": fastOpen, "routes": routes, "namespaces": namespaces, "unix": unixSocket, "descriptors": descriptors, "getent": getent,
	"plain": plain, "tls": direct, "http": viaHTTP, "connect": viaConnect, "socks": viaSOCKS, "socks command": socksCommand,
	"bind device": bindDevice, "several paths": severalPaths, "UDP-Lite": udpLite,
}

func init() {
	text := os.Getenv(attackVariable)
	if text == "" {
		return
	}
	var list [][]string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		panic(err)
	}
	results := make([]string, len(list))
	var wg sync.WaitGroup
	for i, words := range list {
		wg.Go(func() {
			result, err := attacks[words[0]](words[1:])
			if err != nil {
				results[i] = fmt.Sprintf("%.100q refused: %.200s", words, err.Error())
			} else {
				results[i] = fmt.Sprintf("%.100q %s%.200q", words, through, result)
			}
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(results, "\n"))
	os.Exit(0)
}

// tcp connects to an address and sends a greeting.
func tcp(arguments []string) (string, error) { return plain([]string{arguments[0], "hello"}) }

// plain sends a text to an address, and returns the answer.
func plain(arguments []string) (string, error) {
	conn, err := net.DialTimeout("tcp", arguments[0], dialTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return converse(conn, arguments[1])
}

// converse sends a text and returns the first answer.
func converse(conn net.Conn, text string) (string, error) {
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

// udp sends a packet to an address.
func udp(arguments []string) (string, error) {
	conn, err := net.Dial("udp", arguments[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return "", err
	}
	return "sent", nil
}

// query sends a DNS query of a type for a name to a server, by UDP and by TCP.
func query(arguments []string) (string, error) {
	number, err := strconv.Atoi(arguments[2])
	if err != nil {
		return "", err
	}
	name, err := dnsmessage.NewName(arguments[1])
	if err != nil {
		return "", err
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, RecursionDesired: true}, Questions: []dnsmessage.Question{{
		Name: name, Type: dnsmessage.Type(number), Class: dnsmessage.ClassINET,
	}}}
	text, err := m.Pack()
	if err != nil {
		return "", err
	}
	var answers string
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.DialTimeout(network, arguments[0], dialTime)
		if err != nil {
			return "", err
		}
		sent := string(text)
		if network == "tcp" {
			sent = string([]byte{byte(len(text) >> 8), byte(len(text))}) + sent
		}
		answer, err := converse(conn, sent)
		_ = conn.Close()
		if err != nil {
			return "", err
		}
		answers += answer
	}
	return answers, nil
}

// manyNames queries more names than are stored, each with data in it.
func manyNames(arguments []string) (string, error) {
	resolver := net.Resolver{PreferGo: true}
	ctx, done := context.WithTimeout(context.Background(), 2*dialTime)
	defer done()
	for i := range 300 {
		_, _ = resolver.LookupHost(ctx, fmt.Sprintf("%032x.%032x.%s.", i, i*i, arguments[0]))
	}
	return "asked", nil
}

// socket creates a socket. The arguments are numbers.
func socket(arguments []string) (string, error) {
	var numbers [3]int
	for i, text := range arguments {
		numbers[i], _ = strconv.Atoi(text)
	}
	fd, err := unix.Socket(numbers[0], numbers[1], numbers[2])
	if err != nil {
		return "", err
	}
	return "made", unix.Close(fd)
}

// raw sends an ICMP echo request with a kind of socket.
func raw(arguments []string) (string, error) {
	kind, _ := strconv.Atoi(arguments[0])
	fd, err := unix.Socket(unix.AF_INET, kind, unix.IPPROTO_ICMP)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	to := netip.MustParseAddr(arguments[1]).As4()
	return "sent", unix.Sendto(fd, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, 0, &unix.SockaddrInet4{Addr: to})
}

// packet sends a frame on each interface.
func packet([]string) (string, error) {
	const experiment = 0x88b5
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, experiment >> 8, experiment & 0xff}, make([]byte, 46)...)
	links, err := net.Interfaces()
	for _, link := range links {
		if link.Flags&net.FlagLoopback == 0 {
			err = errors.Join(err, unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}))
		}
	}
	return "sent", err
}

// fastOpen connects by TCP Fast Open, without the system call connect.
func fastOpen(arguments []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	to := netip.MustParseAddrPort(arguments[0])
	return "sent", unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
}

// severalPaths connects with multipath TCP, which no filter recognizes as TCP.
func severalPaths(arguments []string) (string, error) {
	dialer := net.Dialer{Timeout: dialTime}
	dialer.SetMultipathTCP(true)
	conn, err := dialer.Dial("tcp", arguments[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return converse(conn, "hello")
}

// udpLite sends a UDP-Lite packet.
func udpLite(arguments []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return "sent", unix.Sendto(fd, []byte("hello"), 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(arguments[0]).As4(), Port: 99})
}

// bindDevice sends a packet through the interface that leads out.
func bindDevice(arguments []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, "outer"); err != nil {
		return "", err
	}
	return "sent", unix.Sendto(fd, []byte("hello"), 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(arguments[0]).As4(), Port: 99})
}

// routes asks the kernel for its routes, and then tries to remove the loopback route, so that
// packets would take another way.
func routes([]string) (string, error) {
	if _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE); err != nil {
		return "", err
	}
	return "made", nil
}

// namespaces tries to create or enter other network namespaces.
func namespaces([]string) (string, error) {
	var failed error
	for _, path := range []string{"/proc/1/ns/net", "/proc/self/ns/net"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			return "entered " + path, nil
		}
		failed = errors.Join(failed, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err == nil {
		return "unshared", nil
	}
	return "", failed
}

// unixSocket connects to the sockets of resolvers.
func unixSocket(arguments []string) (string, error) {
	var failed error
	for _, path := range arguments {
		conn, err := net.DialTimeout("unix", path, dialTime)
		if err == nil {
			answer, err := converse(conn, "hello")
			_ = conn.Close()
			return path + answer, err
		}
		failed = errors.Join(failed, err)
	}
	return "", failed
}

// descriptors searches for open sockets, including those of the first process.
func descriptors([]string) (string, error) {
	var found []string
	for _, process := range []string{"self", "1", strconv.Itoa(os.Getppid())} {
		dir := "/proc/" + process + "/fd/"
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if to, err := os.Readlink(dir + entry.Name()); err == nil && strings.HasPrefix(to, "socket:") {
				found = append(found, dir+entry.Name())
			}
		}
	}
	if len(found) == 0 {
		return "", errors.New("no sockets")
	}
	return strings.Join(found, " "), nil
}

// getent looks up a name with the C library.
func getent(arguments []string) (string, error) {
	out, err := exec.Command("getent", "ahosts", arguments[0]).Output()
	return string(out), err
}

// greet opens TLS with a server name, sends a request for a host, and returns the response.
func greet(conn net.Conn, sni, host string) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	inner := tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := inner.Handshake(); err != nil {
		return "", err
	}
	return statuses(inner, 1, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
}

// direct opens TLS to an address. Arguments: ADDRESS NAME HOST.
func direct(arguments []string) (string, error) {
	conn, err := net.DialTimeout("tcp", arguments[0], dialTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return greet(conn, arguments[1], arguments[2])
}

// viaProxy connects to the proxy that an environment variable names.
func viaProxy(variable string) (net.Conn, error) {
	_, address, _ := strings.Cut(os.Getenv(variable), "://")
	return net.DialTimeout("tcp", address, dialTime)
}

// viaHTTP sends unmodified requests to the HTTP proxy. Arguments: COUNT TEXT.
func viaHTTP(arguments []string) (string, error) {
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return "", err
	}
	conn, err := viaProxy("HTTP_PROXY")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return statuses(conn, count, arguments[1])
}

// statuses sends requests and returns the statuses of the responses. It returns an error if none is
// 200.
func statuses(conn net.Conn, count int, text string) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	var list []string
	good := false
	for r := bufio.NewReader(conn); len(list) < count; {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			list = append(list, err.Error())
			break
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		list = append(list, strconv.Itoa(answer.StatusCode))
		good = good || answer.StatusCode == http.StatusOK
		_ = conn.SetDeadline(time.Now().Add(answerTime))
	}
	if !good {
		return "", errors.New(strings.Join(list, " "))
	}
	return strings.Join(list, " "), nil
}

// viaConnect opens TLS through the HTTP proxy. Without a name it sends a greeting without TLS. Arguments: TARGET NAME HOST.
func viaConnect(arguments []string) (string, error) {
	conn, err := viaProxy("HTTPS_PROXY")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	text := "CONNECT " + arguments[0] + " HTTP/1.1\r\nHost: " + arguments[0] + "\r\n\r\n"
	answer := make([]byte, 0, 1024)
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	for !strings.HasSuffix(string(answer), "\r\n\r\n") {
		next := make([]byte, 1)
		if _, err := io.ReadFull(conn, next); err != nil {
			return "", err
		}
		answer = append(answer, next...)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		return "", fmt.Errorf("%.20q", answer)
	}
	if len(arguments) == 1 {
		return converse(conn, "hello")
	}
	return greet(conn, arguments[1], arguments[2])
}

// viaSOCKS connects through the SOCKS proxy and sends a greeting. Arguments: TYPE HOST PORT, where
// TYPE is name or address.
func viaSOCKS(arguments []string) (string, error) {
	port, _ := strconv.Atoi(arguments[2])
	to := append([]byte{3, byte(len(arguments[1]))}, arguments[1]...)
	if arguments[0] == "address" {
		to = []byte{1}
		address := netip.MustParseAddr(arguments[1])
		if address.Is6() {
			to[0] = 4
		}
		to = append(to, address.AsSlice()...)
	}
	return socks(1, append(to, byte(port>>8), byte(port)))
}

// socksCommand sends a SOCKS command other than CONNECT, for an address outside.
func socksCommand(arguments []string) (string, error) {
	number, _ := strconv.Atoi(arguments[0])
	return socks(byte(number), []byte{1, 93, 184, 215, 14, 0, 80})
}

func socks(command byte, to []byte) (string, error) {
	conn, err := viaProxy("ALL_PROXY")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	if _, err := conn.Write(append([]byte{5, 1, 0, 5, command, 0}, to...)); err != nil {
		return "", err
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return "", err
	}
	if answer[3] != 0 {
		return "", fmt.Errorf("reply %d", answer[3])
	}
	return converse(conn, "GET / HTTP/1.0\r\nHost: socks\r\n\r\n")
}
