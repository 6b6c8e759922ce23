package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// errNoDevice means that the identity service does not support device codes.
//
//lint:ignore ST1005 Codex CLI's text
var errNoDevice = errors.New("device code login is not enabled for this Codex server. Use the browser login or verify the server URL.")

// DeviceOptions configure signing in with a code.
type DeviceOptions struct {
	Issuer   string // the URL of the identity service; empty: the public one
	ClientID string // of this program at the identity service; empty: the default
	// Show asks the user to open a URL in any browser, and to type the code there.
	Show func(url, code string)
	// Warn is called for failures that do not stop the sign-in, for example if the tokens of the
	// former account could not be revoked.
	Warn func(error)
}

// Device signs in to ChatGPT without a browser on this machine. The user types a
// code in a browser elsewhere, and Device polls the identity service until that is
// done, for at most 15 minutes. If credentials are stored, it signs out first.
func (l *Login) Device(ctx context.Context, o DeviceOptions) error {
	if _, err := l.Logout(ctx, o.Warn); err != nil {
		return err
	}
	o.Issuer = issuerOr(o.Issuer)
	if o.ClientID == "" {
		o.ClientID = l.Authority.clientID()
	}
	code, err := l.Authority.userCode(ctx, o)
	if err != nil {
		return err
	}
	o.Show(o.Issuer+"/codex/device", code.user)
	g, err := l.Authority.awaitDevice(ctx, o, code)
	if err != nil {
		return err
	}
	tokens, err := l.Authority.exchange(ctx, g)
	if err != nil {
		return fmt.Errorf("device code exchange failed: %w", err)
	}
	return l.save(tokens, "")
}

// deviceCode identifies one attempt to sign in.
type deviceCode struct {
	secret.Unprinted
	id       string
	user     string // the code that the user types
	interval time.Duration
}

// userCode asks for a code.
func (a *Authority) userCode(ctx context.Context, o DeviceOptions) (deviceCode, error) {
	got, err := a.postJSON(ctx, request{url: o.Issuer + "/api/accounts/deviceauth/usercode", anonymous: true},
		map[string]string{"client_id": o.ClientID})
	switch {
	case err != nil:
		return deviceCode{}, err
	case got.status == http.StatusNotFound:
		return deviceCode{}, errNoDevice
	case !got.ok():
		return deviceCode{}, fmt.Errorf("device code request failed with status %s", got.statusText())
	}
	return parseDeviceCode(got.body)
}

// parseDeviceCode parses the answer to the request for a code.
func parseDeviceCode(body []byte) (deviceCode, error) {
	var answer struct {
		ID       string `json:"device_auth_id"`
		Code     string `json:"user_code"`
		CodeToo  string `json:"usercode"`
		Interval string `json:"interval"` // seconds
	}
	if err := jsonwire.Unmarshal(body, &answer); err != nil {
		return deviceCode{}, fmt.Errorf("device code request failed: %w", plainJSON("answer", err))
	}
	code := deviceCode{id: answer.ID, user: answer.Code}
	if code.user == "" {
		code.user = answer.CodeToo
	}
	code.user = strings.Map(onTerminal, code.user) // the page on which the user types it
	seconds, err := strconv.ParseUint(strings.TrimSpace(answer.Interval), 10, 16)
	if err != nil || code.id == "" || code.user == "" {
		return deviceCode{}, errors.New("device code request failed: the answer lacks an id, a code or an interval in seconds")
	}
	// Without a minimum the identity service could be polled without a pause.
	code.interval = max(time.Duration(seconds)*time.Second, minInterval)
	return code, nil
}

// awaitDevice polls until the user has typed the code.
func (a *Authority) awaitDevice(ctx context.Context, o DeviceOptions, code deviceCode) (grant, error) {
	type body struct {
		ID   string `json:"device_auth_id"`
		Code string `json:"user_code"`
	}
	for end := time.Now().Add(deviceTime); ; {
		got, err := a.postJSON(ctx, request{url: o.Issuer + "/api/accounts/deviceauth/token", anonymous: true}, body{code.id, code.user})
		switch {
		case err != nil:
			return grant{}, err
		case got.ok():
			return deviceGrant(got.body, o)
		case got.status != http.StatusForbidden && got.status != http.StatusNotFound:
			return grant{}, fmt.Errorf("device auth failed with status %s", got.statusText())
		}
		left := time.Until(end)
		if left <= 0 {
			return grant{}, errors.New("device auth timed out after 15 minutes")
		}
		if err := wait.For(ctx, min(code.interval, left)); err != nil {
			return grant{}, err
		}
	}
}

// deviceGrant reads the answer of the identity service after the user has typed the code.
func deviceGrant(body []byte, o DeviceOptions) (grant, error) {
	var answer struct {
		Code     string `json:"authorization_code"`
		Verifier string `json:"code_verifier"`
	}
	if err := jsonwire.Unmarshal(body, &answer); err != nil {
		return grant{}, fmt.Errorf("device auth failed: %w", plainJSON("answer", err))
	}
	if answer.Code == "" || answer.Verifier == "" {
		return grant{}, errors.New("device auth failed: the answer lacks a code or its verifier")
	}
	return grant{
		issuer: o.Issuer, clientID: o.ClientID, code: Secret(answer.Code),
		redirectURI: o.Issuer + "/deviceauth/callback", verifier: Secret(answer.Verifier),
	}, nil
}
