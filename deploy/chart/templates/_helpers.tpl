{{- define "skewscope.uses-api" -}}
{{- or .Values.acting.enabled .Values.leaderElection.enabled .Values.watching.enabled -}}
{{- end }}
