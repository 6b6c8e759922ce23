package info

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// account is a user's entry in the user database.
type account struct{ home, shell string }

// lookupUser reads the user database itself, because a static program cannot call the C library. It
// returns the zero account if the user is in a directory service, or if the file cannot be read.
func lookupUser(database string, uid int) account {
	f, err := os.Open(database)
	if err != nil {
		return account{}
	}
	defer f.Close()
	return findUser(io.LimitReader(f, maxUserDatabase), uid)
}

// findUser returns the first entry of a passwd(5) file for a user, or the zero
// account.
func findUser(database io.Reader, uid int) account {
	want := strconv.Itoa(uid)
	for lines := bufio.NewScanner(database); lines.Scan(); {
		// name:password:UID:GID:GECOS:directory:shell
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[2] == want {
			return account{home: fields[5], shell: fields[6]}
		}
	}
	return account{}
}
