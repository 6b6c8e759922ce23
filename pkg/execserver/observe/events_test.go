package observe

import (
	"errors"
	"slices"
	"testing"
)

// TestGateStopsAtTheFirstRefusal: after an observer has returned an error, the Gate asks no
// further observer.
func TestGateStopsAtTheFirstRefusal(t *testing.T) {
	no := errors.New("the trail cannot be written")
	for _, tt := range []struct {
		name    string
		answers []error
		want    error
		asked   []int
	}{
		{"no observers", nil, nil, nil},
		{"all agree", []error{nil, nil}, nil, []int{0, 1}},
		{"the first refuses", []error{no, nil}, no, []int{0}},
		{"the last refuses", []error{nil, no}, no, []int{0, 1}},
	} {
		var gate Gate[string]
		var asked []int
		for i, answer := range tt.answers {
			gate.Add(func(string) error { asked = append(asked, i); return answer })
		}
		if err := gate.Ask("start"); err != tt.want || !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: got %v from the observers %v, want %v from %v", tt.name, err, asked, tt.want, tt.asked)
		}
	}
}
