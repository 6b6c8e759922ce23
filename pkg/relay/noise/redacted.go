package noise

import (
	"fmt"
	"io"
	"log/slog"
)

const (
	// protocolName begins the transcript.
	protocolName = "Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256"
	// suite names the same in key documents and to people.
	suite = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256"
)

// redacted is embedded in types with secrets. They print as the name of the
// suite, whatever the verb, so that no key gets into a log by mistake.
type redacted struct{}

// String returns the name of the suite.
func (redacted) String() string { return suite }

// GoString returns the name of the suite.
func (redacted) GoString() string { return suite }

// Format writes the name of the suite.
func (redacted) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, suite) }

// LogValue returns the name of the suite.
func (redacted) LogValue() slog.Value { return slog.StringValue(suite) }
