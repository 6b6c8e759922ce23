package noise

import (
	"fmt"
	"io"
	"log/slog"
)

const (
	// protocolName is the beginning of the transcript.
	protocolName = "Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256"
	// suite is the name of the same protocol in key documents and in texts for people.
	suite = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256"
)

// redacted is embedded in types with secrets. With every verb they print as the name of the suite,
// so that no key is logged by mistake.
type redacted struct{}

// String returns the name of the suite.
func (redacted) String() string { return suite }

// GoString returns the name of the suite.
func (redacted) GoString() string { return suite }

// Format writes the name of the suite.
func (redacted) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, suite) }

// LogValue returns the name of the suite.
func (redacted) LogValue() slog.Value { return slog.StringValue(suite) }
