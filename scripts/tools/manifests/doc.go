// Package manifests tests docs/operations/kubernetes. It renders each kustomization with
// kustomize's library, decodes the objects with the types of Kubernetes' API, checks what the types
// cannot express, and judges the pods by Kubernetes' own pod admission. scripts/manifests also runs
// the pods (TestPlay).
package manifests
