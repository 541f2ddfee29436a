module github.com/culprit-project/culprit/lab

go 1.26.0

require (
	github.com/NVIDIA/go-nvml v0.13.0-1
	github.com/google/go-cmp v0.7.0
)
