package tracing

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// sampler decides which spans are exported.
type sampler struct {
	// parentBased follows the flag of the parent, if there is one.
	parentBased bool
	// below is compared with 63 bits of the trace id, as in OpenTelemetry's SDK for Go, so that
	// services with the same ratio choose the same traces.
	below uint64
}

// everything is larger than every number of 63 bits.
const everything = 1 << 63

// newSampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
func newSampler(name, arg string) (sampler, error) {
	var s sampler
	if name == "" {
		name = "parentbased_always_on"
	}
	rest, based := strings.CutPrefix(name, "parentbased_")
	s.parentBased = based
	switch rest {
	case "always_on":
		s.below = everything
	case "always_off":
	case "traceidratio":
		ratio := 1.0
		if arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return s, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not %q", arg)
			}
		}
		s.below = uint64(ratio * everything)
	default:
		return s, fmt.Errorf("OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or one of them with parentbased_ before it, not %q", name)
	}
	return s, nil
}

func (s sampler) sample(parent Context, trace [16]byte) bool {
	if s.parentBased && parent.IsValid() {
		return parent.Sampled
	}
	return binary.BigEndian.Uint64(trace[8:])>>1 < s.below
}
