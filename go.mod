module github.com/culprit-project/culprit

go 1.26
