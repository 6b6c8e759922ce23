package campaign

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// requests makes confined file requests to a server.
func (w *worker) requests() {
	if w.Backend == "none" {
		return
	}
	out, err := w.serve(w.requestLines())
	if err != nil {
		w.r.Broken = fmt.Sprintf("the server: %v", err)
		return
	}
	for line := range strings.Lines(string(out)) {
		w.answered([]byte(line))
	}
}

// requester chooses the requests of a scenario.
type requester struct {
	*probe
	box object // the sandbox of each request
}

type object = map[string]any

func uri(path string) string { return "file://" + path }

// requestLines returns a client's messages to a server, chosen by the seed.
func (w *worker) requestLines() []byte {
	r := &requester{probe: &probe{Rand: rand.New(rand.NewPCG(w.Seed, 13))}}
	r.Top, r.Cwd = w.w.top, "/"
	for _, n := range w.Nodes {
		r.Paths = append(r.Paths, filepath.Join(w.w.top, n.Path))
	}
	workspace := uri(filepath.Join(w.w.top, w.Workspace))
	r.box = object{
		"permissions": w.profile(w.Entries, "file://"), "cwd": workspace,
		"workspaceRoots": []string{workspace}, "windowsSandboxLevel": "disabled",
	}
	var lines bytes.Buffer
	lines.WriteString(`{"id":0,"method":"initialize","params":{"clientName":"campaign"}}` + "\n" + `{"method":"initialized"}` + "\n")
	for id := range w.Requests {
		method, params := r.request()
		text, _ := json.Marshal(object{"id": id + 1, "method": method, "params": params})
		lines.Write(append(text, '\n'))
	}
	return lines.Bytes()
}

// request chooses a request.
func (r *requester) request() (method string, params object) {
	params = object{"path": r.path(), "sandbox": r.box}
	switch r.IntN(8) {
	case 0, 1:
		method = "fs/readFile"
	case 2:
		method = "fs/writeFile"
		params["dataBase64"] = base64.StdEncoding.EncodeToString([]byte("W!"))
	case 3:
		method = "fs/createDirectory"
		params["recursive"] = r.IntN(2) == 0
	case 4:
		method = "fs/remove"
		params["recursive"], params["force"] = true, true
	case 5:
		method = "fs/readDirectory"
	case 6, 7:
		method = "fs/copy"
		params["sourcePath"], params["destinationPath"], params["recursive"] = r.path(), uri(pick(r.Rand, r.Paths)+"/"+r.fresh()), true
		delete(params, "path")
	}
	return method, params
}

// path chooses a path of the tree, or one below it, and its spelling.
func (r *requester) path() string {
	at := pick(r.Rand, r.Paths)
	switch r.IntN(6) {
	case 0:
		return uri("/proc/self/root" + at)
	case 1:
		return uri(at + "/" + r.fresh())
	case 2:
		return uri(at + "/" + pick(r.Rand, metadata))
	}
	return uri(at)
}

// serve runs a server with requests, and returns its answers.
func (w *worker) serve(requests []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "codex"), "exec-server", "--listen", "stdio", "--sandbox-backend", w.Backend, "--log-level", "error")
	if w.Stricter {
		cmd.Args = append(cmd.Args, "--sandbox-stricter")
	}
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin = "/", w.as(), bytes.NewReader(requests)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.self, "home")}
	return cmd.Output()
}

// answered counts an answer of a server, and records the contents and names in it.
func (w *worker) answered(line []byte) {
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if json.Unmarshal(line, &answer) != nil || answer.ID == 0 {
		return
	}
	w.r.Requests++
	if answer.Error != nil {
		w.r.Denied++
		return
	}
	var file struct {
		DataBase64 string `json:"dataBase64"`
		Entries    []struct {
			FileName string `json:"fileName"`
			Name     string `json:"name"`
		}
	}
	if json.Unmarshal(answer.Result, &file) != nil {
		return
	}
	text, _ := base64.StdEncoding.DecodeString(file.DataBase64)
	for _, c := range canary.FindAllString(string(text), -1) {
		w.said = append(w.said, "read "+c+" request "+strconv.Itoa(answer.ID))
	}
	for _, e := range file.Entries {
		w.said = append(w.said, "listed "+e.FileName+e.Name+" request "+strconv.Itoa(answer.ID))
	}
}
