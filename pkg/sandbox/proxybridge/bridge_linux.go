package proxybridge

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Accept connects each connection of a listener with its proxy.
func Accept(listener int, to Endpoint) {
	slots := make(chan struct{}, maxProxied)
	for {
		slots <- struct{}{}
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			<-slots
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			return
		}
		go func() {
			defer func() { <-slots }()
			to.join(fd)
		}()
	}
}

// join copies bytes both ways until both directions have ended.
func (e Endpoint) join(inside int) {
	outside, err := e.dial()
	if err != nil {
		_ = unix.Close(inside)
		return
	}
	a, b := stream(inside), stream(outside)
	defer a.Close()
	defer b.Close()
	var wg sync.WaitGroup
	pipe := func(to, from *os.File, fd int) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBuffer))
		_ = unix.Shutdown(fd, unix.SHUT_WR)
	}
	wg.Go(func() { pipe(b, a, outside) })
	wg.Go(func() { pipe(a, b, inside) })
	wg.Wait()
}

// stream makes a file from a socket; its reads do not block a thread.
func stream(fd int) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "proxied")
}

// dial connects to the proxy on the host.
func (e Endpoint) dial() (int, error) {
	v4 := &unix.SockaddrInet4{Port: int(e.Port), Addr: [4]byte{127, 0, 0, 1}}
	v6 := &unix.SockaddrInet6{Port: int(e.Port), Addr: [16]byte{15: 1}}
	switch {
	case e.Path != "":
		return connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: e.Path})
	case e.Host == "::1":
		return connect(unix.AF_INET6, v6)
	case e.Host == "localhost":
		if fd, err := connect(unix.AF_INET, v4); err == nil {
			return fd, nil
		}
		return connect(unix.AF_INET6, v6)
	default:
		return connect(unix.AF_INET, v4)
	}
}

func connect(family int, to unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
