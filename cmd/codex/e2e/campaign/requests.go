//go:build linux

package main

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
	type object = map[string]any
	r := rand.New(rand.NewPCG(w.Seed, 13))
	uri := func(p string) string { return "file://" + p }
	box := object{
		"permissions": w.profile(w.Entries, "file://"), "cwd": uri(filepath.Join(w.w.top, w.Workspace)),
		"workspaceRoots": []string{uri(filepath.Join(w.w.top, w.Workspace))}, "windowsSandboxLevel": "disabled",
	}
	var in bytes.Buffer
	in.WriteString(`{"id":0,"method":"initialize","params":{"clientName":"campaign"}}` + "\n" + `{"method":"initialized"}` + "\n")
	p := &probe{Rand: r}
	p.Top, p.Cwd = w.w.top, "/"
	for _, n := range w.Nodes {
		p.Paths = append(p.Paths, filepath.Join(w.w.top, n.Path))
	}
	path := func() string {
		at := pick(r, p.Paths)
		switch r.IntN(6) {
		case 0:
			return uri("/proc/self/root" + at)
		case 1:
			return uri(at + "/" + p.fresh())
		case 2:
			return uri(at + "/" + pick(r, metadata))
		}
		return uri(at)
	}
	for id := range w.Requests {
		method, params := "", object{"path": path(), "sandbox": box}
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
			params["sourcePath"], params["destinationPath"], params["recursive"] = path(), uri(pick(r, p.Paths)+"/"+p.fresh()), true
			delete(params, "path")
		}
		text, _ := json.Marshal(object{"id": id + 1, "method": method, "params": params})
		in.Write(append(text, '\n'))
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "codex"), "exec-server", "--listen", "stdio", "--sandbox-backend", w.Backend, "--log-level", "error")
	if w.Stricter {
		cmd.Args = append(cmd.Args, "--sandbox-stricter")
	}
	if w.Backend == "none" {
		return
	}
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin = "/", w.as(), &in
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.self, "home")}
	out, err := cmd.Output()
	if err != nil {
		w.r.Broken = fmt.Sprintf("the server: %v", err)
		return
	}
	for line := range strings.Lines(string(out)) {
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if json.Unmarshal([]byte(line), &answer) != nil || answer.ID == 0 {
			continue
		}
		w.r.Requests++
		if answer.Error != nil {
			w.r.Denied++
			continue
		}
		var file struct {
			DataBase64 string `json:"dataBase64"`
			Entries    []struct {
				FileName string `json:"fileName"`
				Name     string `json:"name"`
			}
		}
		if json.Unmarshal(answer.Result, &file) != nil {
			continue
		}
		text, _ := base64.StdEncoding.DecodeString(file.DataBase64)
		for _, c := range canary.FindAllString(string(text), -1) {
			w.said = append(w.said, "read "+c+" request "+strconv.Itoa(answer.ID))
		}
		for _, e := range file.Entries {
			w.said = append(w.said, "listed "+e.FileName+e.Name+" request "+strconv.Itoa(answer.ID))
		}
	}
}
