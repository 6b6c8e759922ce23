package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"time"
)

// copyright is the text of the file about the origin of a package that Debian's policy requires. It
// is a format string with the year.
const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: codex-exec-server

Files: *
Copyright: %d the authors of codex-exec-server
License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
Comment:
 The programs contain code of others. Its licenses are in
 /usr/share/doc/codex-exec-server/THIRD-PARTY-LICENSES.
`

// overrides are lintian's complaints that are accepted, each with a reason.
const overrides = `# Programs of Go, which run in sandboxes and images without libraries.
codex-exec-server: statically-linked-binary [usr/lib/codex-exec-server/*]
# Services that run are started anew, and none is enabled, which deb-systemd-helper would do.
codex-exec-server: maintainer-script-calls-systemctl [*]
`

// debianFiles are the files that only a package for Debian has.
func (r *release) debianFiles() ([]file, error) {
	version := strings.Replace(r.version, "-", "~", 1)
	changelog := fmt.Sprintf("%s (%s) unstable; urgency=medium\n\n  * Release %s. CHANGELOG.md says what has changed.\n\n -- %s  %s\n",
		packageName, version, r.version, r.maintainer, r.date.Format(time.RFC1123Z))
	packed, err := gzipped([]byte(changelog))
	if err != nil {
		return nil, err
	}
	var files []file
	for _, f := range []struct {
		name, to string
		content  []byte
	}{
		{"changelog.gz", "/usr/share/doc/" + packageName + "/changelog.gz", packed},
		{"copyright", "/usr/share/doc/" + packageName + "/copyright", fmt.Appendf(nil, copyright, r.date.Year())},
		{"overrides", "/usr/share/lintian/overrides/" + packageName, []byte(overrides)},
	} {
		from, err := r.write(f.name, f.content)
		if err != nil {
			return nil, err
		}
		files = append(files, file{f.to, from, 0o644})
	}
	return files, nil
}

// gzipped compresses content without a name and a time, as packages require.
func gzipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// gzipFile makes a compressed copy of a file.
func (r *release) gzipFile(name, from string) (string, error) {
	content, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	packed, err := gzipped(content)
	if err != nil {
		return "", err
	}
	return r.write(name, packed)
}
