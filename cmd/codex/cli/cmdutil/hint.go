package cmdutil

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"codex.internal/pkg/account/registry"
)

// Advice about a certificate, a name and a URL.
const (
	untrusted  = "its certificate is not trusted on this machine; for a registry, set CODEX_CA_CERTIFICATE to a file with its certificate authority"
	otherName  = "its certificate is for other names; use one of them in the URL, or get a certificate for this name"
	expired    = "its certificate has expired; renew it, or set the clock of this machine"
	wrongPlace = "is that the URL of a codex rendezvous, such as https://meet.example:8766?"
	CheckName  = "check the host's name"
)

// FromRegistry reports whether an error is a response of a registry.
func FromRegistry(err error) bool {
	var answered *registry.StatusError
	return errors.As(err, &answered)
}

// RegistryHint returns advice on an error of a call to a registry, or "" if it has none. role is the role of the
// caller, and variable the name of the variable with its token.
func RegistryHint(err error, role, variable string) string {
	var answered *registry.StatusError
	if errors.As(err, &answered) {
		return answerHint(answered, role, variable)
	}
	var unread *registry.DecodeError
	if errors.As(err, &unread) && !unread.Retryable() {
		return wrongPlace
	}
	var asked *registry.TransportError
	if !errors.As(err, &asked) {
		return ""
	}
	var dns *net.DNSError
	hint := CertificateHint(err)
	switch {
	case hint != "":
		return hint
	case errors.Is(err, ErrConnectionRefused):
		return "is codex rendezvous running there?"
	case errors.As(err, &dns):
		return CheckName
	case errors.Is(err, http.ErrSchemeMismatch):
		return "it does not use TLS; try its URL with http://"
	default:
		return ""
	}
}

// CertificateHint returns advice on an error about a certificate; empty for other errors.
func CertificateHint(err error) string {
	var cert *tls.CertificateVerificationError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return otherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return expired
	case errors.As(err, &cert):
		return untrusted
	default:
		return ""
	}
}

// noRegistry are the status codes with which a web server that is not a registry answers its calls.
var noRegistry = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusPermanentRedirect, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// answerHint returns advice on a response of a registry.
func answerHint(answered *registry.StatusError, role, variable string) string {
	switch {
	case answered.Unauthorized():
		return "set " + variable + " to a token of that service"
	case answered.Status == http.StatusForbidden:
		return "set " + variable + " to a token for it: on the machine of that service, run codex rendezvous token create --role " + role + " --environment ID"
	case answered.Code == "environment_offline" || answered.Code == "environment_not_registered":
		return "on its machine, codex exec-server --remote URL --environment-id ID connects it"
	case answered.Status == http.StatusBadRequest && strings.Contains(answered.Message, "HTTPS server"):
		return "give its URL with https://"
	case answered.Status == http.StatusNotFound, answered.Code == "" && slices.Contains(noRegistry, answered.Status):
		return wrongPlace
	default:
		return ""
	}
}
