// Command protogen generates the Go code of a protobuf file. It links the compiler, and the
// generator is a tool of this module. So no installation is needed, and go.mod pins both versions.
//
//	protogen -I proto -module codex.internal/pkg -out pkg relay.proto
//
// It must run in this module's directory, where go tool finds the generator. With -check it writes
// nothing, and fails if a file differs from the generated one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	var g generation
	flag.StringVar(&g.source, "I", ".", "the directory of the protobuf file")
	flag.StringVar(&g.module, "module", "", "the Go module to generate into")
	flag.StringVar(&g.out, "out", ".", "the directory of the module")
	flag.BoolVar(&g.check, "check", false, "fail when a file is not current")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := g.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

type generation struct {
	source, module, out string
	check               bool
}

// run generates the Go of each of the named files.
func (g generation) run(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return errors.New("name a protobuf file")
	}
	for _, name := range names {
		files, err := g.generate(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, file := range files {
			if err := g.store(filepath.Join(g.out, file.GetName()), []byte(file.GetContent())); err != nil {
				return err
			}
		}
	}
	return nil
}

// generate compiles a file without imports and generates its Go.
func (g generation) generate(ctx context.Context, name string) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{g.source}},
		SourceInfoMode: protocompile.SourceInfoStandard, // for the comments
	}
	compiled, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("module=" + g.module),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(compiled[0])},
	})
	if err != nil {
		return nil, err
	}
	generator := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	generator.Stdin = bytes.NewReader(request)
	generator.Stderr = os.Stderr
	output, err := generator.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w", err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("protoc-gen-go: %s", response.GetError())
	}
	return response.File, nil
}

// store writes a file, or checks that the file has this content.
func (g generation) store(path string, content []byte) error {
	if !g.check {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	}
	current, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(current, content) {
		return fmt.Errorf("%s is not current: run scripts/proto", path)
	}
	return nil
}
