package signin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/internal/wait"
)

// loginScope is the scope of the tokens.
const loginScope = "openid profile email offline_access api.connectors.read api.connectors.invoke"

// loginPorts are the ports to which the identity service redirects browsers.
var loginPorts = []int{1455, 1457}

// BrowserOptions are the options of a sign-in with a browser.
type BrowserOptions struct {
	// Ports of 127.0.0.1 are tried in order. If the list is empty, the ports that the identity
	// service knows are tried.
	Ports []int
	// Show shows the user the address of the local server, and the URL to open.
	Show func(server, authorize string)
	// Open opens the URL in a browser. A failure does not matter, because Show has shown the user
	// the URL.
	Open func(url string) error
	// Notice is called with the reason if signing in fails in the browser.
	Notice func(text string)
	// Warn is called for failures that do not stop the sign-in, for example if the tokens of the
	// former account could not be revoked.
	Warn func(error)
}

// Browser signs in to ChatGPT with a browser on this machine, without a time limit. If
// credentials are stored, it signs out first.
func (l *Login) Browser(ctx context.Context, o BrowserOptions) error {
	if _, err := l.Logout(ctx, o.Warn); err != nil {
		return err
	}
	ports := o.Ports
	if len(ports) == 0 {
		ports = loginPorts
	}
	listener, err := listenLocal(ctx, ports, portPause)
	if err != nil {
		return err
	}
	server := "http://localhost:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	c := newCallback(ctx, l, server)
	defer c.abandon()
	srv := &http.Server{
		Handler: c, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: requestTimeout, IdleTimeout: headerTimeout,
		MaxHeaderBytes: maxCallback,
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.end(err)
		}
	})
	defer func() {
		// Give the browser time to get its last answer.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswer)
		defer cancel()
		if srv.Shutdown(bound) != nil {
			_ = srv.Close()
		}
	}()
	authorize := c.authorizeURL()
	o.Show(server, authorize)
	if err := o.Open(authorize); err != nil {
		o.Warn(fmt.Errorf("open a browser: %w", err))
	}
	err = c.wait(ctx)
	var failed *callbackError
	if errors.As(err, &failed) {
		o.Notice(failed.notice)
	}
	return err
}

// listenLocal listens on the first free port. If a port is in use, it may belong to an earlier
// sign-in attempt. listenLocal asks that attempt to end, and gives it some time.
func listenLocal(ctx context.Context, ports []int, delay time.Duration) (net.Listener, error) {
	var address string
	for _, port := range ports {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		for try := range portTries {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err == nil || !inUse(err) {
				return listener, err
			}
			if try == 0 {
				cancelOther(ctx, address)
			}
			if err := wait.For(ctx, delay); err != nil {
				return nil, err
			}
		}
	}
	//lint:ignore ST1005 Codex CLI's text
	return nil, fmt.Errorf("Port %s is already in use", address)
}

// wsaAddressInUse is the error of Windows that corresponds to EADDRINUSE.
const wsaAddressInUse = syscall.Errno(10048)

func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaAddressInUse)
}

// cancelOther asks the process that listens on address to end its sign-in attempt. The caller's
// next attempt to listen shows whether it has ended.
func cancelOther(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/cancel", nil)
	if err != nil {
		return
	}
	req.Close = true
	req.Header["User-Agent"] = nil // Codex CLI has no limit
	// Do not use a proxy for this address.
	t := &http.Transport{DisableCompression: true}
	defer t.CloseIdleConnections()
	if resp, err := t.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
	}
}

// authorizeURL returns the URL at which the user signs in.
func (c *callback) authorizeURL() string {
	fields := []field{
		param("response_type", "code"), param("client_id", c.grant.clientID), param("redirect_uri", c.grant.redirectURI), param("scope", loginScope),
		param("code_challenge", challenge(c.grant.verifier)), param("code_challenge_method", "S256"),
		param("id_token_add_organizations", "true"), param("codex_cli_simplified_flow", "true"),
		param("state", c.state.Reveal()), param("originator", c.login.Authority.originator()),
	}
	if ids := c.login.Workspaces; len(ids) > 0 {
		fields = append(fields, param("allowed_workspace_id", strings.Join(ids, ",")))
	}
	return c.grant.issuer + "/oauth/authorize?" + encodeFields(fields)
}
