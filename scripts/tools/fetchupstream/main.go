// Command fetchupstream downloads the binary of one version of Codex CLI into a directory and
// prints its path. A checksum pins the download. An existing file is not downloaded again.
//
//	fetchupstream -version 0.142.0 -dir CACHE
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// integrity has the SHA-512 of each package, in the form of npm's lock files.
var integrity = map[string]string{
	"0.142.0-linux-x64":   "nywS+ogFPRhZnQnKL+jzWKzFhmjTQbYPh6n8dtQ/E+sJ3FoZVcb9a6kvHL5yjgtlCiDkP0jPDYY5AK3tDShYyw==",
	"0.169.0-linux-x64":   "o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==",
	"0.171.0-linux-x64":   "l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
	"0.142.0-linux-arm64": "gX9hCK59bE0Itnous1MCrKiXTYuoGVE6oJUE0kyRSzaBD267sh9TNR3DXKbY7TsP7iAs19n8YXDJNdHZJtakSQ==",
	"0.169.0-linux-arm64": "NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==",
	"0.171.0-linux-arm64": "9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==",
}

const (
	// maxPackage bounds the unpacked files.
	maxPackage = 2 << 30
	// fetchTime bounds one download, and fetchTries bounds the attempts.
	fetchTime  = 10 * time.Minute
	fetchTries = 3
)

func main() {
	version := flag.String("version", "", "the version, such as 0.142.0")
	dir := flag.String("dir", "", "the directory to keep it in")
	flag.Parse()
	binary, err := fetch(*version, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetchupstream:", err)
		os.Exit(1)
	}
	fmt.Println(binary)
}

func fetch(version, dir string) (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	name := version + "-linux-" + arch
	sum, ok := integrity[name]
	if !ok || runtime.GOOS != "linux" {
		return "", fmt.Errorf("no checksum is known for version %q on %s/%s", version, runtime.GOOS, runtime.GOARCH)
	}
	if dir == "" {
		return "", errors.New("-dir is missing")
	}
	target := filepath.Join(dir, "codex-"+name)
	if found, err := find(target); err == nil {
		return found, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := store("https://registry.npmjs.org/@openai/codex/-/codex-"+name+".tgz", sum, target); err != nil {
		return "", err
	}
	return find(target)
}

// store downloads a package and unpacks it to a directory that does not exist.
func store(url, sum, target string) error {
	for try := 1; ; try++ {
		err := tryToStore(url, sum, target)
		if err == nil || try == fetchTries {
			return err
		}
		fmt.Fprintln(os.Stderr, "fetchupstream:", err)
	}
}

// tryToStore makes one attempt in its own directory, because an interrupted attempt leaves files
// behind.
func tryToStore(url, sum, target string) error {
	temp, err := os.MkdirTemp(filepath.Dir(target), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := download(url, sum, temp); err != nil {
		return err
	}
	err = os.Rename(temp, target)
	if _, e := find(target); e == nil {
		return nil // another process may have been faster
	}
	return err
}

// find searches an unpacked package for the binary.
func find(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "package", "vendor", "*", "bin", "codex"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: the package has no binary", dir)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

func download(url, sum, dir string) error {
	fmt.Fprintln(os.Stderr, "fetchupstream: downloading", url)
	client := &http.Client{Timeout: fetchTime}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	digest := sha512.New()
	if err := unpack(io.TeeReader(res.Body, digest), dir); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if got := encode(digest); got != sum {
		return fmt.Errorf("%s: the checksum is %s, not %s", url, got, sum)
	}
	return nil
}

func encode(h hash.Hash) string { return base64.StdEncoding.EncodeToString(h.Sum(nil)) }

// unpack unpacks regular files. It reads the archive to its end, so that the checksum covers all of
// it.
func unpack(r io.Reader, dir string) error {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	files := tar.NewReader(io.LimitReader(gz, maxPackage))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("a name leads outside: %q", h.Name)
		}
		if err := write(filepath.Join(dir, h.Name), files, h.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, gz)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

func write(name string, r io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if strings.Contains(name, string(filepath.Separator)+"bin"+string(filepath.Separator)) {
		mode |= 0o111
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
