// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Prints the layout of culprit_trace.h, for the reader's tests and trace-fields.md. Plain text, one record a line,
// fields separated by one space, struct names without their prefix "culprit_":
//
//   const NAME VALUE                  numbers of the format (decimal)
//   struct NAME SIZE                  bytes
//   field STRUCT.FIELD OFFSET SIZE    bytes from the start of the struct; fields in order of their offset
//
// The test is that no struct has a hole: every field begins where the one before ends.

#include "../culprit_trace.h"

#include <stdio.h>
#include <stdlib.h>

static size_t field_end;  // Where the next field must begin.
static size_t struct_bytes;
static const char *struct_name = "";
static int holes;

static void end_struct(void) {
  if (field_end != struct_bytes) {
    fprintf(stderr, "%s: fields end at %zu of %zu bytes\n", struct_name, field_end, struct_bytes);
    holes++;
  }
}

static void begin_struct(const char *name, size_t bytes) {
  end_struct();
  struct_name = name;
  struct_bytes = bytes;
  field_end = 0;
  printf("struct %s %zu\n", name, bytes);
}

static void field(const char *name, size_t offset, size_t bytes) {
  if (offset != field_end) {
    fprintf(stderr, "%s.%s: begins at %zu, the field before ends at %zu\n", struct_name, name, offset, field_end);
    holes++;
  }
  field_end = offset + bytes;
  printf("field %s.%s %zu %zu\n", struct_name, name, offset, bytes);
}

#define SKIP_PREFIX(s) ((s) + sizeof("culprit_") - 1)
#define STRUCT(s) begin_struct(SKIP_PREFIX(#s), sizeof(struct s))
#define FIELD(s, f) field(#f, offsetof(struct s, f), sizeof(((struct s *)0)->f))
#define CONST(c) printf("const %s %llu\n", #c, (unsigned long long)(c))

int main(void) {
  CONST(CULPRIT_TRACE_MAJOR);
  CONST(CULPRIT_TRACE_MINOR);
  CONST(CULPRIT_MAX_SECTIONS);
  CONST(CULPRIT_MAX_CHANNELS);
  CONST(CULPRIT_EPOCH_NS);
  CONST(CULPRIT_FUNC_COUNT);
  CONST(CULPRIT_SECTION_COMMS);
  CONST(CULPRIT_SECTION_OPS);
  CONST(CULPRIT_SECTION_FLOWS);
  CONST(CULPRIT_SECTION_COMPLETIONS);
  CONST(CULPRIT_SECTION_LIFECYCLE);
  CONST(CULPRIT_SECTION_QPS);
  CONST(CULPRIT_SECTION_TRANSFERS);
  STRUCT(culprit_section);
  FIELD(culprit_section, kind);
  FIELD(culprit_section, entry_bytes);
  FIELD(culprit_section, count);
  FIELD(culprit_section, reserved);
  FIELD(culprit_section, offset);
  STRUCT(culprit_header);
  FIELD(culprit_header, magic);
  FIELD(culprit_header, version_major);
  FIELD(culprit_header, version_minor);
  FIELD(culprit_header, header_bytes);
  FIELD(culprit_header, file_bytes);
  FIELD(culprit_header, section_count);
  FIELD(culprit_header, writer_abi);
  FIELD(culprit_header, sections);
  FIELD(culprit_header, pid);
  FIELD(culprit_header, rank);
  FIELD(culprit_header, world_size);
  FIELD(culprit_header, local_rank);
  FIELD(culprit_header, node_rank);
  FIELD(culprit_header, gpu_index);
  FIELD(culprit_header, pid_namespace);
  FIELD(culprit_header, start_ticks);
  FIELD(culprit_header, created_ns);
  FIELD(culprit_header, created_real_ns);
  FIELD(culprit_header, boot_id);
  FIELD(culprit_header, hostname);
  FIELD(culprit_header, process_name);
  FIELD(culprit_header, job_id);
  FIELD(culprit_header, slurm_job_id);
  FIELD(culprit_header, slurm_step_id);
  FIELD(culprit_header, pod_name);
  FIELD(culprit_header, pod_namespace);
  FIELD(culprit_header, pod_uid);
  FIELD(culprit_header, container_name);
  FIELD(culprit_header, gpu_uuid);
  FIELD(culprit_header, gpu_pci_bus_id);
  FIELD(culprit_header, visible_devices);
  FIELD(culprit_header, shim_version);
  FIELD(culprit_header, capabilities);
  FIELD(culprit_header, event_mask);
  FIELD(culprit_header, heartbeat_ns);
  FIELD(culprit_header, real_minus_mono_ns);
  FIELD(culprit_header, closed_ns);
  FIELD(culprit_header, group_open_since_ns);
  FIELD(culprit_header, group_count);
  FIELD(culprit_header, comms_high);
  FIELD(culprit_header, ops_high);
  FIELD(culprit_header, flows_high);
  FIELD(culprit_header, qps_high);
  FIELD(culprit_header, completions_head);
  FIELD(culprit_header, lifecycle_head);
  FIELD(culprit_header, transfers_head);
  FIELD(culprit_header, dropped_comms);
  FIELD(culprit_header, dropped_ops);
  FIELD(culprit_header, dropped_flows);
  FIELD(culprit_header, contended_events);
  FIELD(culprit_header, foreign_events);
  FIELD(culprit_header, stale_events);
  FIELD(culprit_header, repeated_events);
  FIELD(culprit_header, callbacks);
  STRUCT(culprit_comm);
  FIELD(culprit_comm, version);
  FIELD(culprit_comm, generation);
  FIELD(culprit_comm, in_use);
  FIELD(culprit_comm, flags);
  FIELD(culprit_comm, comm_id);
  FIELD(culprit_comm, nranks);
  FIELD(culprit_comm, rank);
  FIELD(culprit_comm, nnodes);
  FIELD(culprit_comm, proxy_tid);
  FIELD(culprit_comm, user_tid);
  FIELD(culprit_comm, ops_in_flight);
  FIELD(culprit_comm, name);
  FIELD(culprit_comm, created_ns);
  FIELD(culprit_comm, destroyed_ns);
  FIELD(culprit_comm, ops_called);
  FIELD(culprit_comm, ops_started);
  FIELD(culprit_comm, ops_completed);
  FIELD(culprit_comm, last_called_ns);
  FIELD(culprit_comm, last_progress_ns);
  FIELD(culprit_comm, last_completed_ns);
  FIELD(culprit_comm, seq_started);
  FIELD(culprit_comm, func_completed);
  FIELD(culprit_comm, func_bytes);
  FIELD(culprit_comm, func_ns);
  FIELD(culprit_comm, ops_unseen);
  FIELD(culprit_comm, device);
  FIELD(culprit_comm, gpu_index);
  FIELD(culprit_comm, gpu_uuid);
  FIELD(culprit_comm, gpu_pci_bus_id);
  STRUCT(culprit_op);
  FIELD(culprit_op, version);
  FIELD(culprit_op, generation);
  FIELD(culprit_op, in_use);
  FIELD(culprit_op, flags);
  FIELD(culprit_op, comm_index);
  FIELD(culprit_op, comm_generation);
  FIELD(culprit_op, number);
  FIELD(culprit_op, seq);
  FIELD(culprit_op, func);
  FIELD(culprit_op, algo);
  FIELD(culprit_op, proto);
  FIELD(culprit_op, datatype_bytes);
  FIELD(culprit_op, datatype);
  FIELD(culprit_op, count);
  FIELD(culprit_op, bytes);
  FIELD(culprit_op, peer);
  FIELD(culprit_op, root);
  FIELD(culprit_op, channels);
  FIELD(culprit_op, state);
  FIELD(culprit_op, called_ns);
  FIELD(culprit_op, enqueued_ns);
  FIELD(culprit_op, entered_ns);
  FIELD(culprit_op, first_step_ns);
  FIELD(culprit_op, last_progress_ns);
  FIELD(culprit_op, left_ns);
  FIELD(culprit_op, kernel_started);
  FIELD(culprit_op, kernel_stopped);
  FIELD(culprit_op, proxy_started);
  FIELD(culprit_op, proxy_stopped);
  FIELD(culprit_op, user_tid);
  FIELD(culprit_op, group_ordinal);
  FIELD(culprit_op, gpu_ready_ns);
  STRUCT(culprit_flow);
  FIELD(culprit_flow, version);
  FIELD(culprit_flow, generation);
  FIELD(culprit_flow, in_use);
  FIELD(culprit_flow, comm_index);
  FIELD(culprit_flow, comm_generation);
  FIELD(culprit_flow, channel);
  FIELD(culprit_flow, is_send);
  FIELD(culprit_flow, state);
  FIELD(culprit_flow, peer);
  FIELD(culprit_flow, op_index);
  FIELD(culprit_flow, op_generation);
  FIELD(culprit_flow, queued);
  FIELD(culprit_flow, op_number);
  FIELD(culprit_flow, op_seq);
  FIELD(culprit_flow, func);
  FIELD(culprit_flow, reserved0);
  FIELD(culprit_flow, steps_total);
  FIELD(culprit_flow, posted);
  FIELD(culprit_flow, ready);
  FIELD(culprit_flow, transmitted);
  FIELD(culprit_flow, done);
  FIELD(culprit_flow, peer_polls);
  FIELD(culprit_flow, epochs);
  FIELD(culprit_flow, op_started_ns);
  FIELD(culprit_flow, first_step_ns);
  FIELD(culprit_flow, state_since_ns);
  FIELD(culprit_flow, last_progress_ns);
  FIELD(culprit_flow, bytes);
  FIELD(culprit_flow, wait_ns);
  FIELD(culprit_flow, active_ns);
  FIELD(culprit_flow, largest_gap_ns);
  FIELD(culprit_flow, total_ops);
  FIELD(culprit_flow, total_posted);
  FIELD(culprit_flow, total_ready);
  FIELD(culprit_flow, total_transmitted);
  FIELD(culprit_flow, total_done);
  FIELD(culprit_flow, total_bytes);
  FIELD(culprit_flow, total_wait_ns);
  FIELD(culprit_flow, total_active_ns);
  FIELD(culprit_flow, total_epochs);
  STRUCT(culprit_direction);
  FIELD(culprit_direction, flows);
  FIELD(culprit_direction, steps);
  FIELD(culprit_direction, bytes);
  FIELD(culprit_direction, wait_ns);
  FIELD(culprit_direction, active_ns);
  FIELD(culprit_direction, largest_gap_ns);
  FIELD(culprit_direction, first_step_ns);
  FIELD(culprit_direction, last_step_ns);
  FIELD(culprit_direction, slowest_channel);
  FIELD(culprit_direction, slowest_peer);
  FIELD(culprit_direction, slowest_ns);
  FIELD(culprit_direction, fastest_ns);
  STRUCT(culprit_completion);
  FIELD(culprit_completion, ticket);
  FIELD(culprit_completion, comm_id);
  FIELD(culprit_completion, comm_index);
  FIELD(culprit_completion, comm_generation);
  FIELD(culprit_completion, nranks);
  FIELD(culprit_completion, rank);
  FIELD(culprit_completion, number);
  FIELD(culprit_completion, seq);
  FIELD(culprit_completion, func);
  FIELD(culprit_completion, algo);
  FIELD(culprit_completion, proto);
  FIELD(culprit_completion, datatype_bytes);
  FIELD(culprit_completion, count);
  FIELD(culprit_completion, bytes);
  FIELD(culprit_completion, peer);
  FIELD(culprit_completion, root);
  FIELD(culprit_completion, channels);
  FIELD(culprit_completion, flags);
  FIELD(culprit_completion, called_ns);
  FIELD(culprit_completion, enqueued_ns);
  FIELD(culprit_completion, entered_ns);
  FIELD(culprit_completion, left_ns);
  FIELD(culprit_completion, gpu_ns);
  FIELD(culprit_completion, send);
  FIELD(culprit_completion, recv);
  FIELD(culprit_completion, gpu_ready_ns);
  FIELD(culprit_completion, send_probes);
  FIELD(culprit_completion, recv_probes);
  STRUCT(culprit_lifecycle);
  FIELD(culprit_lifecycle, ticket);
  FIELD(culprit_lifecycle, at_ns);
  FIELD(culprit_lifecycle, kind);
  FIELD(culprit_lifecycle, comm_index);
  FIELD(culprit_lifecycle, comm_id);
  FIELD(culprit_lifecycle, arg0);
  FIELD(culprit_lifecycle, text);
  STRUCT(culprit_qp);
  FIELD(culprit_qp, version);
  FIELD(culprit_qp, generation);
  FIELD(culprit_qp, in_use);
  FIELD(culprit_qp, qp_num);
  FIELD(culprit_qp, dest_qp_num);
  FIELD(culprit_qp, comm_index);
  FIELD(culprit_qp, comm_generation);
  FIELD(culprit_qp, flow_index);
  FIELD(culprit_qp, flow_generation);
  FIELD(culprit_qp, peer);
  FIELD(culprit_qp, port);
  FIELD(culprit_qp, dest_lid);
  FIELD(culprit_qp, gid_index);
  FIELD(culprit_qp, state);
  FIELD(culprit_qp, device);
  FIELD(culprit_qp, remote_gid);
  FIELD(culprit_qp, created_ns);
  FIELD(culprit_qp, connected_ns);
  FIELD(culprit_qp, last_post_ns);
  FIELD(culprit_qp, last_completion_ns);
  FIELD(culprit_qp, sends_posted);
  FIELD(culprit_qp, sends_completed);
  FIELD(culprit_qp, send_bytes);
  FIELD(culprit_qp, receives_posted);
  FIELD(culprit_qp, receives_completed);
  FIELD(culprit_qp, errors);
  FIELD(culprit_qp, last_error);
  FIELD(culprit_qp, epochs);
  FIELD(culprit_qp, active_ns);
  STRUCT(culprit_transfer);
  FIELD(culprit_transfer, ticket);
  FIELD(culprit_transfer, flow_index);
  FIELD(culprit_transfer, flow_generation);
  FIELD(culprit_transfer, op_number);
  FIELD(culprit_transfer, step);
  FIELD(culprit_transfer, bytes);
  FIELD(culprit_transfer, started_ns);
  FIELD(culprit_transfer, ended_ns);
  end_struct();
  return holes == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
