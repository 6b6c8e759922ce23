package statuspage

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/internal/webpage"
)

// The status page ends processes (docs/spec/wire.md §1.2). Browsers add the password of Basic
// authentication to every request, even to one from a page of another site. Therefore a POST
// must have this page's origin, which a page of another site cannot set, and the proof from the
// confirmation, which another site cannot read.

const (
	// proofTime is the minimum time for which a confirmation is valid. Time is divided into
	// intervals of this length: a confirmation is valid in the interval in which it was made,
	// and in the next one.
	proofTime = 10 * time.Minute
	// maxForm bounds the body of a POST, which contains two digests.
	maxForm = 4 << 10
	// endField and proofField are the fields of the form. endField is also in the query of the
	// confirmation's URL.
	endField, proofField = "end", "proof"
)

// errUnknownTarget means that the process does not exist, or that the client may not end
// it.
var errUnknownTarget = errors.New("the process does not exist any more, or you may not end it; go back to /status")

// secret is the key for the references and proofs of the page. A server makes it when it
// starts: after a restart, old confirmations are invalid.
type secret [sha256.Size]byte

func newSecret() (k secret) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// digest returns a digest of texts that only the holder of the key can compute.
func (k *secret) digest(texts ...string) string {
	h := hmac.New(sha256.New, k[:])
	for _, text := range texts {
		h.Write(strconv.AppendInt(nil, int64(len(text)), 10))
		h.Write([]byte{':'})
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// proof returns the proof that a client must send together with the reference of a process to
// end the process.
func (k *secret) proof(grant *wsauth.Grant, ref string, at time.Time) string {
	return k.digest("proof", grant.Principal, grant.Token, ref, strconv.FormatInt(at.Unix()/int64(proofTime/time.Second), 10))
}

// proves reports whether a proof is valid.
func (k *secret) proves(proof string, grant *wsauth.Grant, ref string, now time.Time) bool {
	for _, at := range []time.Time{now, now.Add(-proofTime)} {
		if hmac.Equal([]byte(proof), []byte(k.proof(grant, ref, at))) {
			return true
		}
	}
	return false
}

// ref returns the reference of a process on the page; "": the client may not end it. If a later
// process has the same id, it gets another reference.
func (k *secret) ref(key Key) string {
	if key == nil {
		return ""
	}
	return k.digest(key...)
}

// MayEnd reports whether a client may end processes with the page.
func MayEnd(grant *wsauth.Grant) bool { return grant.Role.Allows(wsauth.RoleRun) }

// findTarget returns the process with that reference among those that the client may end.
func (p *Page) findTarget(grant *wsauth.Grant, ref string) (Target, error) {
	if MayEnd(grant) {
		for _, t := range p.Source.Targets(grant) {
			if p.secret.ref(t.Key) == ref {
				return t, nil
			}
		}
	}
	return Target{}, errUnknownTarget
}

// IsOwnForm reports whether a request with an Origin is a request of this page's form.
func IsOwnForm(r *http.Request) bool {
	return r.URL.Path == Path && r.Method == http.MethodPost && isOwnOrigin(r)
}

// isOwnOrigin reports whether a request comes from a page of this server. With each POST,
// browsers send the origin of the page.
func isOwnOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	// Only the host is compared: a proxy in front of this server may terminate TLS, so that the
	// scheme of the origin is the proxy's.
	origin, err := url.Parse(origins[0])
	return err == nil && (origin.Scheme == "http" || origin.Scheme == "https") && r.Host != "" && origin.Host == r.Host &&
		origins[0] == origin.Scheme+"://"+origin.Host
}

// serveConfirmation serves the page that asks whether to end a process.
func (p *Page) serveConfirmation(w http.ResponseWriter, grant *wsauth.Grant, ref string) {
	found, err := p.findTarget(grant, ref)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	webpage.SetHeaders(w.Header(), confirmPolicy)
	// Without a referrer browsers would not send the origin with the POST either.
	w.Header().Set("Referrer-Policy", "same-origin")
	_, _ = w.Write(confirmPage(&found, ref, p.secret.proof(grant, ref, time.Now())))
}

// serveEnd ends a process after the client has confirmed it.
func (p *Page) serveEnd(w http.ResponseWriter, r *http.Request, grant *wsauth.Grant) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	ref := r.PostForm.Get(endField)
	if !MayEnd(grant) {
		p.Refuse(w, r, &observe.Refused{Status: http.StatusForbidden, Principal: grant.Principal, Err: errors.New("to end a process needs a token with the role run")})
		return
	}
	if !p.secret.proves(r.PostForm.Get(proofField), grant, ref, time.Now()) {
		p.Refuse(w, r, &observe.Refused{Status: http.StatusForbidden, Principal: grant.Principal, Err: errors.New("the confirmation is not good any more; go back to /status and ask again")})
		return
	}
	found, err := p.findTarget(grant, ref)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	found.Seen.Principal, found.Seen.Peer = grant.Principal, r.RemoteAddr
	if err := p.Events.ProcessEndAsked.Ask(found.Seen); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	p.Log.Info("the status page ends a process", "process", found.Name, "principal", observe.Short(grant.Principal), "peer", r.RemoteAddr)
	if err := found.End(r.Context()); err != nil {
		http.Error(w, "the process could not be ended: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, Path, http.StatusSeeOther)
}
