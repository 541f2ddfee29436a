{{/* The names are fixed but for the release: rules and the analyzer find targets by the names of their scrape jobs. */}}
{{- define "culprit.name" -}}
{{- if contains "culprit" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-culprit" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "culprit.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/part-of: culprit
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The label app.kubernetes.io/name is the name of the scrape job, by jobLabel. */}}
{{- define "culprit.exporter.selector" -}}
app.kubernetes.io/name: culprit-exporter
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "culprit.analyzer.selector" -}}
app.kubernetes.io/name: culprit-analyzer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "culprit.image" -}}
{{ .root.Values.image.registry }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "culprit.monitor.labels" -}}
{{ include "culprit.labels" . }}
{{- with .Values.monitorLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations by which a Prometheus that is configured by hand finds targets. */}}
{{- define "culprit.scrape.annotations" -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ . | quote }}
{{- end }}
