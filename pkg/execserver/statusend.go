package execserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/internal/webpage"
)

// The status page ends processes (docs/spec/wire.md §1.2). Browsers add the password of Basic
// authentication to every request, also to one that a page of another site makes. Therefore a
// POST must name this page's own origin, which a page of another site cannot, and have the
// proof from the confirmation, which another site cannot read.

const (
	// proofTime is how long a confirmation is good, at least: it is good in the span of
	// that length in which it was made, and in the next.
	proofTime = 10 * time.Minute
	// maxForm bounds the body of a POST, which has two digests.
	maxForm = 4 << 10
	// endField and proofField are the fields of the form; endField is in the query of the
	// confirmation's URL, too.
	endField, proofField = "end", "proof"
)

// errUnknownTarget means that there is no such process, or that the client may not end it.
var errUnknownTarget = errors.New("there is no such process any more, or it is not yours to end; go back to /status")

// statusKey makes the references and proofs of the page. It is that of one server for its
// life: after a restart an old confirmation is not good.
type statusKey [sha256.Size]byte

func newStatusKey() (k statusKey) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// digest returns a digest of texts that nobody can make without the key.
func (k *statusKey) digest(texts ...string) string {
	h := hmac.New(sha256.New, k[:])
	for _, text := range texts {
		h.Write(strconv.AppendInt(nil, int64(len(text)), 10))
		h.Write([]byte{':'})
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// proof returns what a client must send with the reference of a process to end it.
func (k *statusKey) proof(grant *wsauth.Grant, ref string, at time.Time) string {
	return k.digest("proof", grant.Principal, grant.Token, ref, strconv.FormatInt(at.Unix()/int64(proofTime/time.Second), 10))
}

// proves reports whether a proof is good.
func (k *statusKey) proves(proof string, grant *wsauth.Grant, ref string, now time.Time) bool {
	for _, at := range []time.Time{now, now.Add(-proofTime)} {
		if hmac.Equal([]byte(proof), []byte(k.proof(grant, ref, at))) {
			return true
		}
	}
	return false
}

// target is a process that the page can end.
type target struct {
	name, command string
	seen          observe.EndRequest
	end           func(ctx context.Context) error
}

// refOf names a process of a session on the page. An id that is used again gets another one.
func (srv *Server) refOf(p *proc) string {
	return srv.statusKey.digest("session", p.s.id, p.id, p.startedAt.String())
}

// refOfKept names a detached process.
func (srv *Server) refOfKept(k *kept) string {
	return srv.statusKey.digest("detached", k.record.Owner, k.record.ProcessID, k.record.StartID)
}

// mayEnd reports whether the page ends processes for a client.
func mayEnd(grant *wsauth.Grant) bool { return grant.Role.Allows(wsauth.RoleRun) }

// findTarget returns the process of a reference among those that a client may end.
func (srv *Server) findTarget(grant *wsauth.Grant, ref string) (target, error) {
	if !mayEnd(grant) {
		return target{}, errUnknownTarget
	}
	all := grant.Role.Allows(wsauth.RoleAdmin)
	for _, s := range srv.sessionsOf(grant.Principal, all) {
		for _, p := range s.all() {
			if srv.refOf(p) == ref {
				seen := observe.EndRequest{Session: p.seen.Session.ID, Owner: s.owner, Process: p.id, Thread: p.seen.Thread, ToolCall: p.seen.ToolCall}
				return target{shorten(p.id), commandOf(p.argv), seen, p.terminate}, nil
			}
		}
	}
	for _, k := range srv.keptOf(grant.Principal, all) {
		if srv.refOfKept(k) == ref {
			seen := observe.EndRequest{Process: k.record.ProcessID}
			return target{shorten(k.record.ProcessID), commandOf(k.record.Argv), seen, k.terminate}, nil
		}
	}
	return target{}, errUnknownTarget
}

// keptOf returns the detached processes of a principal, or all.
func (srv *Server) keptOf(principal string, all bool) []*kept {
	if srv.detached == nil || principal == "" || principal == anybody && !all {
		return nil
	}
	if all {
		principal = ""
	}
	return srv.detached.all(principal)
}

// terminate ends the process, or its start.
func (p *proc) terminate(context.Context) error {
	if p.cancelStart() {
		return nil
	}
	if running := p.now(); running != nil {
		p.stopAsking()
		running.Terminate()
	}
	return nil
}

// terminate has the keeper end the process. One that has ended is no error.
func (k *kept) terminate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var answer execproto.TerminateResult
	err := k.call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: k.record.ProcessID}, &answer)
	if errors.Is(err, errKeeperEnded) {
		return nil
	}
	return err
}

// isOwnOrigin reports whether a request comes from a page of this server: browsers name the
// origin of the page with each POST.
func isOwnOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	// A proxy before this server may have the certificate: the scheme of the origin is its.
	origin, err := url.Parse(origins[0])
	return err == nil && (origin.Scheme == "http" || origin.Scheme == "https") && r.Host != "" && origin.Host == r.Host &&
		origins[0] == origin.Scheme+"://"+origin.Host
}

// serveConfirmation asks whether a process is to be ended.
func (srv *Server) serveConfirmation(w http.ResponseWriter, grant *wsauth.Grant, ref string) {
	found, err := srv.findTarget(grant, ref)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	webpage.SetHeaders(w.Header(), confirmPolicy)
	// Without a referrer browsers would not tell the origin of the POST either.
	w.Header().Set("Referrer-Policy", "same-origin")
	_, _ = w.Write(confirmPage(&found, ref, srv.statusKey.proof(grant, ref, time.Now())))
}

// serveEnd ends a process that a client has confirmed.
func (srv *Server) serveEnd(w http.ResponseWriter, r *http.Request, grant *wsauth.Grant) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	ref := r.PostForm.Get(endField)
	if !mayEnd(grant) {
		srv.refuse(w, r, &denial{http.StatusForbidden, errors.New("to end a process needs a token with the role run")})
		return
	}
	if !srv.statusKey.proves(r.PostForm.Get(proofField), grant, ref, time.Now()) {
		srv.refuse(w, r, &denial{http.StatusForbidden, errors.New("the confirmation is not good any more; go back to /status and ask again")})
		return
	}
	found, err := srv.findTarget(grant, ref)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	found.seen.Principal, found.seen.Peer = grant.Principal, r.RemoteAddr
	if err := srv.events.ProcessEndAsked.Ask(found.seen); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	srv.log.Info("the status page ends a process", "process", found.name, "principal", shorten(grant.Principal), "peer", r.RemoteAddr)
	if err := found.end(r.Context()); err != nil {
		http.Error(w, "the process could not be ended: "+err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, statusPath, http.StatusSeeOther)
}
