//! The messages of a Perfetto trace that are written, with the numbers of their fields from the
//! public `.proto` files of google/perfetto (Apache-2.0).

use prost::Message;

pub(super) const TYPE_SLICE_BEGIN: i32 = 1;
pub(super) const TYPE_SLICE_END: i32 = 2;
pub(super) const TYPE_INSTANT: i32 = 3;
pub(super) const TYPE_COUNTER: i32 = 4;

pub(super) const UNIT_COUNT: i32 = 2;
pub(super) const UNIT_SIZE_BYTES: i32 = 3;

/// A list of areas as the kernel has it.
pub(super) const RECORDING_TYPE_STANDALONE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "37")]
    pub(super) profile_packet: Option<ProfilePacket>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "68")]
    pub(super) smaps_packet: Option<SmapsPacket>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, tag = "5")]
    pub(super) parent_uuid: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, repeated, tag = "2")]
    pub(super) cmdline: Vec<String>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(int64, tag = "2")]
    pub(super) tid: i64,
    #[prost(string, tag = "5")]
    pub(super) thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, tag = "3")]
    pub(super) unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "10")]
    pub(super) name_iid: u64,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(uint64, optional, tag = "56")]
    pub(super) callstack_iid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, tag = "1")]
    pub(super) name_iid: u64,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<EventName>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<EventName>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

/// Also `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EventName {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedString {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) build_id: u64,
    #[prost(uint64, tag = "4")]
    pub(super) start: u64,
    #[prost(uint64, tag = "5")]
    pub(super) end: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function_name_id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) mapping_id: u64,
    #[prost(uint64, tag = "4")]
    pub(super) rel_pc: u64,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
}

/// The outermost frame first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfilePacket {
    #[prost(message, repeated, tag = "5")]
    pub(super) process_dumps: Vec<ProcessHeapSamples>,
    #[prost(uint64, tag = "7")]
    pub(super) index: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessHeapSamples {
    #[prost(uint64, tag = "1")]
    pub(super) pid: u64,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<HeapSample>,
    #[prost(uint64, tag = "9")]
    pub(super) timestamp: u64,
    #[prost(string, tag = "11")]
    pub(super) heap_name: String,
    #[prost(uint64, tag = "12")]
    pub(super) sampling_interval_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeapSample {
    #[prost(uint64, tag = "1")]
    pub(super) callstack_id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) self_allocated: u64,
    #[prost(uint64, tag = "3")]
    pub(super) self_freed: u64,
    #[prost(uint64, tag = "5")]
    pub(super) alloc_count: u64,
    #[prost(uint64, tag = "6")]
    pub(super) free_count: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SmapsPacket {
    #[prost(uint32, tag = "1")]
    pub(super) pid: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) entries: Vec<SmapsEntry>,
    #[prost(int32, tag = "4")]
    pub(super) recording_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SmapsEntry {
    #[prost(string, tag = "1")]
    pub(super) path: String,
    #[prost(uint64, tag = "2")]
    pub(super) size_kb: u64,
    #[prost(uint64, tag = "6")]
    pub(super) start_address: u64,
    #[prost(uint32, tag = "10")]
    pub(super) protection_flags: u32,
}
