package tracing

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config has the values of OpenTelemetry's variables.
type config struct {
	endpoint string
	headers  http.Header
	timeout  time.Duration
	resource []attribute
	sampler  sampler
}

// defaultService is service.name, as in Codex CLI.
const defaultService = "codex-exec-server"

// HeaderVariables name the variables with headers for collectors, which usually contain a
// secret: commands must not get these variables.
var HeaderVariables = []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}

// readConfig reads the variables. It returns nil if they name no endpoint, or if traces are
// disabled. Errors name the variable, never the value of a header.
func readConfig(getenv func(string) string) (*config, error) {
	// The variable for traces overrides the general one.
	of := func(name string) (value, variable string) {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value := getenv(variable); value != "" {
				return value, variable
			}
		}
		return "", ""
	}
	endpoint, from := of("ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if endpoint == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	if exporter != "" && exporter != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER must be otlp or none, not %q", exporter)
	}
	if protocol, variable := of("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("%s must be http/protobuf, not %q", variable, protocol)
	}
	c := &config{timeout: defaultTimeout}
	var err error
	if c.endpoint, err = endpointURL(endpoint, from); err != nil {
		return nil, err
	}
	if text, variable := of("TIMEOUT"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 31)
		if err != nil || ms == 0 {
			return nil, fmt.Errorf("%s must be a number of milliseconds, not %q", variable, text)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	text, variable := of("HEADERS")
	if c.headers, err = headers(text); err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if c.sampler, err = newSampler(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return nil, err
	}
	c.resource, err = resource(getenv)
	return c, err
}

// endpointURL returns the URL to which spans are sent. The variable for traces has the complete
// URL, and the general one its beginning.
func endpointURL(text, variable string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s must be a URL that begins with http:// or https://", variable)
	case u.User != nil:
		return "", fmt.Errorf("%s must not have a user or a password; use OTEL_EXPORTER_OTLP_HEADERS", variable)
	case variable == "OTEL_EXPORTER_OTLP_ENDPOINT":
		u = u.JoinPath("v1", "traces")
	case u.Path == "":
		u.Path = "/"
	}
	return u.String(), nil
}

var errHeader = errors.New("expected NAME=VALUE,NAME=VALUE with values as in URLs")

// headers parses headers for the collector.
func headers(text string) (http.Header, error) {
	h := make(http.Header)
	pairs, err := pairs(text)
	if err != nil {
		return nil, errHeader
	}
	for _, p := range pairs {
		if p.name == "" || strings.ContainsFunc(p.name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) ||
			strings.ContainsFunc(p.value.(string), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, errHeader
		}
		h.Set(p.name, p.value.(string))
	}
	return h, nil
}

// pairs parses NAME=VALUE,NAME=VALUE, in which bytes may be percent-encoded.
func pairs(text string) ([]attribute, error) {
	var list []attribute
	for part := range strings.SplitSeq(strings.ToValidUTF8(text, "\uFFFD"), ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("%q has no equals sign", part)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, err
		}
		list = append(list, attribute{strings.TrimSpace(name), strings.ToValidUTF8(value, "\uFFFD")})
	}
	return list, nil
}

// resource returns the description of the server for the collector.
func resource(getenv func(string) string) ([]attribute, error) {
	list, err := pairs(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w; expected NAME=VALUE,NAME=VALUE", err)
	}
	named := func(a attribute) bool { return a.name == "service.name" }
	if service := getenv("OTEL_SERVICE_NAME"); service != "" {
		list = append(slices.DeleteFunc(list, named), attribute{"service.name", service})
	} else if !slices.ContainsFunc(list, named) {
		list = append(list, attribute{"service.name", defaultService})
	}
	return list, nil
}
