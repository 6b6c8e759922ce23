package signin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestForeignRequests sends requests to the local server that a web page can make a browser send.
// None of them ends the attempt, even if everything else in the request is right.
func TestForeignRequests(t *testing.T) {
	const server = "http://localhost:1455"
	type header map[string]string
	navigation := func(site string) header {
		return header{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	}
	for name, tt := range map[string]struct {
		path, host string
		header     header
		refused    bool
	}{
		"a program that cancels":                        {"/cancel", "127.0.0.1:1455", nil, false},
		"another that does":                             {"/cancel", "localhost:1455", nil, false},
		"a user who types it":                           {"/cancel", "localhost:1455", navigation("none"), false},
		"cancel: a page's fetch":                        {"/cancel", "localhost:1455", header{"Origin": "https://evil.example"}, true},
		"cancel: a sandboxed frame":                     {"/cancel", "localhost:1455", header{"Origin": "null"}, true},
		"cancel: an origin of this machine":             {"/cancel", "localhost:1455", header{"Origin": server}, true},
		"cancel: an empty origin":                       {"/cancel", "localhost:1455", header{"Origin": ""}, true},
		"cancel: a name that leads here":                {"/cancel", "evil.example:1455", nil, true},
		"cancel: a name that leads here, without port":  {"/cancel", "evil.example", nil, true},
		"cancel: a name that begins like ours":          {"/cancel", "localhost:1455.evil.example", nil, true},
		"cancel: a name below localhost":                {"/cancel", "evil.localhost:1455", nil, true},
		"cancel: another port":                          {"/cancel", "localhost:1456", nil, true},
		"cancel: no port":                               {"/cancel", "localhost", nil, true},
		"cancel: no host":                               {"/cancel", "", nil, true},
		"cancel: another spelling of the address":       {"/cancel", "127.1:1455", nil, true},
		"cancel: a link":                                {"/cancel", "localhost:1455", navigation("cross-site"), true},
		"cancel: a link on another port":                {"/cancel", "localhost:1455", navigation("same-site"), true},
		"cancel: a link of this server":                 {"/cancel", "localhost:1455", navigation("same-origin"), true},
		"cancel: an image":                              {"/cancel", "localhost:1455", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, true},
		"cancel: an image, by its mode":                 {"/cancel", "localhost:1455", header{"Sec-Fetch-Mode": "no-cors"}, true},
		"cancel: an image, by its destination":          {"/cancel", "localhost:1455", header{"Sec-Fetch-Dest": "image"}, true},
		"cancel: an image of an old browser":            {"/cancel", "localhost:1455", header{"Referer": "https://evil.example/"}, true},
		"back from the identity service":                {"/auth/callback", "localhost:1455", navigation("cross-site"), false},
		"back from it, an old browser":                  {"/auth/callback", "localhost:1455", header{"Referer": "https://auth.openai.com/"}, false},
		"back from it, after a form":                    {"/auth/callback", "localhost:1455", header{"Origin": "null"}, false},
		"back: a page's fetch":                          {"/auth/callback", "localhost:1455", header{"Origin": "https://evil.example"}, true},
		"back: a name that leads here":                  {"/auth/callback", "evil.example:1455", nil, true},
		"back: an image":                                {"/auth/callback", "localhost:1455", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, true},
		"back: a frame":                                 {"/auth/callback", "localhost:1455", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, true},
		"back: a site without a mode":                   {"/auth/callback", "localhost:1455", header{"Sec-Fetch-Site": "cross-site"}, true},
		"a page that does not exist, of a foreign name": {"/", "evil.example:1455", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := newCallback(ctx, newIdentityService(t).login(nil, &memoryStore{}), server)
			query := url.Values{"state": {c.state.Reveal()}, "error": {"x"}}
			r := httptest.NewRequest(http.MethodGet, tt.path+"?"+query.Encode(), nil)
			r.Host = tt.host
			for name, value := range tt.header {
				r.Header[name] = []string{value}
			}
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			if got := w.Code == http.StatusForbidden; got != tt.refused {
				t.Errorf("got w.Code %d, w.Body %s; want %v", w.Code, w.Body, tt.refused)
			}
			select {
			case <-c.ended:
				if tt.refused {
					t.Errorf("the attempt has ended: %v", c.err)
				}
			default:
				if !tt.refused {
					t.Error("the attempt goes on")
				}
			}
			if w.Header().Get("Connection") != "close" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf(`got %v; want w.Header().Get("Connection") "close", w.Header().Get("Content-Security-Policy") with "default-src 'none'"`, w.Header())
			}
		})
	}
}
