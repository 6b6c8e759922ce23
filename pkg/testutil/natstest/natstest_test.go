package natstest

import (
	"net"
	"strings"
	"testing"
)

// reachable reports whether a program listens at a URL.
func reachable(t *testing.T, url string) bool {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		return false
	}
	defer c.Close()
	greeting := make([]byte, len("INFO "))
	_, err = c.Read(greeting)
	return err == nil && string(greeting) == "INFO "
}

func TestServerKeepsItsPort(t *testing.T) {
	s := Start(t)
	url := s.URL()
	if !reachable(t, url) {
		t.Fatal("nobody is there")
	}
	s.Kill()
	s.Kill()
	if reachable(t, url) {
		t.Fatal("it lives on")
	}
	s.Restart()
	if s.URL() != url || !reachable(t, url) {
		t.Errorf("%s, before %s", s.URL(), url)
	}
}

func TestClusterSurvivesAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	c := StartCluster(t, 3)
	urls := strings.Split(c.URLs(), ",")
	for _, url := range urls {
		if !reachable(t, url) {
			t.Fatalf("nobody is at %s", url)
		}
	}
	c[0].Kill()
	if reachable(t, urls[0]) || !reachable(t, urls[1]) {
		t.Error("the wrong one was killed")
	}
	c[0].Restart()
	if c.URLs() != strings.Join(urls, ",") || !reachable(t, urls[0]) {
		t.Errorf("%s, before %s", c.URLs(), urls)
	}
}
