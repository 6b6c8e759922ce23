package limiter

import (
	"errors"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFreeTasks(t *testing.T) {
	for _, tt := range []struct {
		limit uint64
		exist int
		free  bool
	}{
		{1, 0, false}, {10, 0, false}, {19, 0, false}, {20, 5, true}, {20, 6, false}, {100, 85, true}, {100, 86, false}, {511, 600, false},
		{manyTasks, 1 << 20, true}, {math.MaxUint64, 0, true},
	} {
		if err := freeTasks(tt.limit, func() int { return tt.exist }); (err == nil) != tt.free || err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Errorf("limit %d, %d exist: got error %v, want free %v", tt.limit, tt.exist, err, tt.free)
		}
	}
	if n := tasksOf(os.Getuid()); n < 1 {
		t.Errorf("got %d tasks of this user, want this process among them", n)
	}
}
