package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

// maxScrapers bounds the connections of --metrics-listen: a service that collects metrics uses one
// connection, and few such services exist.
const maxScrapers = 16

// MetricsAddress returns the address of --metrics-listen. It is invalid if the option is not given.
func MetricsAddress(c *cli.Context) (netip.AddrPort, error) {
	where := c.String("metrics-listen")
	if !IsSet(c, "metrics-listen") {
		return netip.AddrPort{}, nil
	}
	addr, err := netip.ParseAddrPort(where)
	if err != nil {
		return netip.AddrPort{}, Usagef("--metrics-listen %q: expected IP:PORT", where)
	}
	if err := CheckAddress(addr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("--metrics-listen: %w", err)
	}
	return addr, nil
}

// ListenMetrics listens on an address. It returns nil if the address is invalid.
func ListenMetrics(addr netip.AddrPort) (net.Listener, error) {
	if !addr.IsValid() {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", ListenError(addr, err))
	}
	return l, nil
}

// StartMetrics serves metrics on l until stop is called. l may be nil.
func StartMetrics(l net.Listener, handler http.Handler, log *slog.Logger) (stop func()) {
	if l == nil {
		return func() {}
	}
	log.Info("serving metrics", "url", "http://"+l.Addr().String()+"/metrics")
	ctx, cancel := context.WithCancel(context.Background())
	h := websocket.NewHTTPServer(handler)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer context.AfterFunc(ctx, func() { _ = h.Close() })()
		err := h.Serve(websocket.LimitWaiting(l, maxScrapers, websocket.Source))
		if err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics are no longer served", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
