package permissions

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"
)

// PathDecoder turns a path of the JSON into a clean absolute native one.
type PathDecoder func(text string) (string, error)

var (
	errRelative = errors.New("path is not absolute")
	errNoHome   = errors.New("path is relative to a home directory that is not known")
	errNUL      = errors.New("path contains a NUL byte")
	errTooLong  = errors.New("path is too long")
	errNotUTF8  = errors.New("path is not valid UTF-8")
	errNotThere = errors.New("no such file or directory")
)

// NativePath returns the decoder for the launcher's form: absolute paths, and `~` or `~/x` for
// paths below home. It cleans paths by their spelling. Relative paths and file: URIs are errors.
func NativePath(home string) PathDecoder {
	return func(text string) (string, error) {
		if text == "~" || strings.HasPrefix(text, "~/") {
			if !path.IsAbs(home) {
				return "", errNoHome
			}
			text = home + text[1:]
		}
		if !path.IsAbs(text) {
			return "", errRelative
		}
		return path.Clean(text), nil
	}
}

// decode decodes a text into a path. It refuses a path that could not be passed to the kernel or
// could not be encoded as JSON again. If such a path were changed instead, a denied path would be
// granted.
func (decode PathDecoder) decode(text string) (string, error) {
	native, err := decode(text)
	if err == nil {
		err = checkText(native)
	}
	if err == nil && (!path.IsAbs(native) || native != path.Clean(native)) {
		err = errRelative
	}
	if err != nil {
		return "", &PathError{Text: clip(text), Err: err}
	}
	return native, nil
}

// checkText refuses a path or pattern that no system call accepts.
func checkText(s string) error {
	switch {
	case len(s) > maxPath:
		return errTooLong
	case strings.IndexByte(s, 0) >= 0:
		return errNUL
	case !utf8.ValidString(s):
		return errNotUTF8
	}
	return nil
}
