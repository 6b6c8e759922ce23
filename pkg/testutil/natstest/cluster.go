package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// Cluster is several servers that are connected.
type Cluster []*Server

// StartCluster runs a cluster that ends with the test, and waits until it has
// elected its leader.
func StartCluster(t testing.TB, size int) Cluster {
	t.Helper()
	var err error
	for range startAttempts {
		var c Cluster
		if c, err = startCluster(t, size); err == nil {
			return c
		}
		t.Log(err)
		for _, s := range c {
			s.Kill()
		}
	}
	t.Fatal(err)
	return nil
}

// startCluster starts the servers on ports that were free a moment ago, because members of a
// cluster must know each other's ports from the start.
func startCluster(t testing.TB, size int) (Cluster, error) {
	ports, err := freePorts(size)
	if err != nil {
		return nil, err
	}
	var c Cluster
	for i := range ports {
		s := newServer(t, &clusterConfig{name: fmt.Sprintf("n%d", i+1), ports: ports, number: i})
		c = append(c, s)
		if err := s.launch(); err != nil {
			return c, err
		}
	}
	for _, s := range c {
		if err := s.awaitReady(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// URLs returns the URLs of all servers for clients, separated by commas.
func (c Cluster) URLs() string {
	urls := make([]string, len(c))
	for i, s := range c {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// freePorts returns ports on which no program listens.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for len(ports) < n {
		port, err := testutil.FreePort()
		if err != nil {
			return nil, fmt.Errorf("natstest: %w", err)
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// portOf returns the port of a URL.
func portOf(text string) (int, error) {
	u, err := url.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("natstest: %w", err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0, fmt.Errorf("natstest: %s: %w", text, err)
	}
	return port, nil
}
