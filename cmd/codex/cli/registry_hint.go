package cli

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"codex.internal/pkg/registry"
)

// Hints at what to do about a certificate and a name.
const (
	untrusted = "its certificate is not trusted here: for a registry, CODEX_CA_CERTIFICATE names a file with more authorities"
	checkName = "check the host's name"
)

// fromRegistry reports whether an error is what a registry has answered.
func fromRegistry(err error) bool {
	var answered *registry.StatusError
	return errors.As(err, &answered)
}

// registryHint says what the user of a registry, who comes in a role with a token
// from a variable, can do about an error; empty: there is nothing to say.
func registryHint(err error, role, variable string) string {
	var answered *registry.StatusError
	if errors.As(err, &answered) {
		return answerHint(answered, role, variable)
	}
	var asked *registry.TransportError
	if !errors.As(err, &asked) {
		return ""
	}
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.Is(err, errRefused):
		return "is codex rendezvous running there?"
	case errors.As(err, &cert):
		return untrusted
	case errors.As(err, &dns):
		return checkName
	default:
		return ""
	}
}

// answerHint says what to do about a registry's answer.
func answerHint(answered *registry.StatusError, role, variable string) string {
	switch {
	case answered.Unauthorized():
		return "set " + variable + " to a token of that service"
	case answered.Status == http.StatusForbidden:
		return "set " + variable + " to one that is: on the machine of that service, codex rendezvous token create --role " + role + " --environment ID makes it"
	case answered.Code == "environment_offline" || answered.Code == "environment_not_registered":
		return "on its machine, codex exec-server --remote URL --environment-id ID connects it"
	case answered.Status == http.StatusNotFound:
		return "is that the URL of a codex rendezvous, such as https://meet.example:8766?"
	default:
		return ""
	}
}
