package runner

import "testing"

func TestDenied(t *testing.T) {
	for _, tt := range []struct {
		code     int
		out, err string
		want     bool
	}{
		{0, "", "permission denied", false},
		{1, "", "", false},
		{1, "", "cat: f: Permission denied\n", true},
		{1, "OPERATION NOT PERMITTED", "", true},
		{1, "touch: Read-only file system", "", true},
		{1, "", "bad system call: seccomp", true},
		{1, "in the sandbox", "", true},
		{1, "", "Landlock", true},
		{1, "", "Failed to write file f", true},
		{1, "permission ", "denied", true}, // in both joined
		{1, "denied", "permission ", false},
		{2, "", "usage", false},
		{2, "", "permission denied", true},
		{126, "", "not executable", false},
		{126, "", "Permission denied", true},
		{127, "", "not found", false},
		{127, "", "codex-linux-sandbox: Failed to execvp x: No such file or directory (os error 2)", false},
		{126, "", "codex-linux-sandbox: Failed to execvp x: Permission denied (os error 13)", true},
		{159, "", "", true},
		{158, "", "", false},
		{-1, "", "permission denied", true},
		{-1, "", "", false},
	} {
		if got := Denied(tt.code, []byte(tt.out), []byte(tt.err)); got != tt.want {
			t.Errorf("%d %q %q: got %v, want %v", tt.code, tt.out, tt.err, got, tt.want)
		}
	}
}
