package cmdutil

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
)

// NoMost is the upper bound of an option that has no upper bound.
const NoMost = math.MaxInt64

// Number is the value of an option that takes a number or a duration. Set is the only place that refuses a
// value out of range, whether it comes from the command line, a variable or a file with options.
// TestNumericOptions tries values out of range for all options.
type Number[T int64 | time.Duration] struct {
	Least, Most T
	value       T
	parse       func(text string) (T, error)
	form        string // a valid value, for the error about an invalid one
}

// Count returns an option for a whole number from least to most. value is its default.
func Count(flag cli.GenericFlag, value, least, most int64) cli.Flag {
	flag.Value = &Number[int64]{Least: least, Most: most, value: value, form: "a whole number such as 8",
		parse: func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }}
	return &flag
}

// Size returns an option for a number of bytes, at least 1, that may end with K, M, G or T.
func Size(flag cli.GenericFlag) cli.Flag {
	flag.Value = &Number[int64]{Least: 1, Most: NoMost, form: "a size such as 8M", parse: func(text string) (int64, error) {
		if n, ok := ParseSize(text); ok {
			return int64(n), nil
		}
		return strconv.ParseInt(text, 10, 64)
	}}
	return &flag
}

// Duration returns an option for a duration of at least least. value is its default.
func Duration(flag cli.GenericFlag, value, least time.Duration) cli.Flag {
	flag.Value = &Number[time.Duration]{Least: least, Most: NoMost, value: value, form: "a duration such as 90s, 30m or 720h", parse: time.ParseDuration}
	return &flag
}

func (n *Number[T]) String() string { return fmt.Sprint(n.value) }
func (n *Number[T]) Get() any       { return n.value }

// Set returns an error if the text is not a number, or out of range.
func (n *Number[T]) Set(text string) error {
	value, err := n.parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("expected %s", n.form)
	case value < n.Least:
		return fmt.Errorf("must be at least %v", n.Least)
	case value > n.Most:
		return fmt.Errorf("must be at most %v", n.Most)
	}
	n.value = value
	return nil
}
