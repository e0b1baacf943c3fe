/* Every function of NVML that is answered; a scenario may give each a latency and a return code. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#define SYMBOLS(X) \
    X(nvmlInit_v2) \
    X(nvmlInitWithFlags) \
    X(nvmlShutdown) \
    X(nvmlSystemGetDriverVersion) \
    X(nvmlSystemGetNVMLVersion) \
    X(nvmlSystemGetCudaDriverVersion_v2) \
    X(nvmlSystemGetCudaDriverVersion) \
    X(nvmlSystemGetProcessName) \
    X(nvmlDeviceGetCount_v2) \
    X(nvmlDeviceGetHandleByIndex_v2) \
    X(nvmlDeviceGetHandleByUUID) \
    X(nvmlDeviceGetHandleByPciBusId_v2) \
    X(nvmlDeviceGetIndex) \
    X(nvmlDeviceGetUUID) \
    X(nvmlDeviceGetName) \
    X(nvmlDeviceGetPciInfo_v3) \
    X(nvmlDeviceGetCudaComputeCapability) \
    X(nvmlDeviceGetMemoryInfo) \
    X(nvmlDeviceGetMemoryInfo_v2) \
    X(nvmlDeviceGetUtilizationRates) \
    X(nvmlDeviceGetEncoderUtilization) \
    X(nvmlDeviceGetDecoderUtilization) \
    X(nvmlDeviceGetSamples) \
    X(nvmlDeviceGetPowerUsage) \
    X(nvmlDeviceGetEnforcedPowerLimit) \
    X(nvmlDeviceGetPowerManagementLimit) \
    X(nvmlDeviceGetPowerManagementDefaultLimit) \
    X(nvmlDeviceGetTotalEnergyConsumption) \
    X(nvmlDeviceGetTemperature) \
    X(nvmlDeviceGetTemperatureV) \
    X(nvmlDeviceGetTemperatureThreshold) \
    X(nvmlDeviceGetMarginTemperature) \
    X(nvmlDeviceGetFanSpeed) \
    X(nvmlDeviceGetClockInfo) \
    X(nvmlDeviceGetMaxClockInfo) \
    X(nvmlDeviceGetCurrentClocksEventReasons) \
    X(nvmlDeviceGetCurrPcieLinkWidth) \
    X(nvmlDeviceGetCurrPcieLinkGeneration) \
    X(nvmlDeviceGetMaxPcieLinkWidth) \
    X(nvmlDeviceGetMaxPcieLinkGeneration) \
    X(nvmlDeviceGetPcieThroughput) \
    X(nvmlDeviceGetFieldValues) \
    X(nvmlDeviceGetRemappedRows) \
    X(nvmlDeviceGetGpuFabricInfoV) \
    X(nvmlDeviceGetMigMode) \
    X(nvmlDeviceGetMaxMigDeviceCount) \
    X(nvmlDeviceGetMigDeviceHandleByIndex) \
    X(nvmlDeviceGetPersistenceMode) \
    X(nvmlDeviceGetComputeMode) \
    X(nvmlDeviceGetDisplayActive) \
    X(nvmlDeviceGetDisplayMode) \
    X(nvmlDeviceGetNumaNodeId) \
    X(nvmlDeviceGetGpuInstanceId) \
    X(nvmlGpmQueryDeviceSupport) \
    X(nvmlGpmSampleAlloc) \
    X(nvmlGpmSampleFree) \
    X(nvmlGpmSampleGet) \
    X(nvmlGpmMigSampleGet) \
    X(nvmlGpmMetricsGet) \
    X(nvmlDeviceGetTopologyCommonAncestor) \
    X(nvmlDeviceGetNvLinkState) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2) \
    X(nvmlDeviceGetNvLinkRemoteDeviceType) \
    X(nvmlDeviceGetComputeRunningProcesses_v3) \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3) \
    X(nvmlDeviceGetProcessUtilization) \
    X(nvmlDeviceGetSupportedEventTypes) \
    X(nvmlDeviceRegisterEvents) \
    X(nvmlEventSetCreate) \
    X(nvmlEventSetWait_v2) \
    X(nvmlEventSetFree)

enum symbol {
#define X(name) SYMBOL_##name,
    SYMBOLS(X)
#undef X
    SYMBOL_COUNT
};

/* What a GPU may measure: the key behind `gpu.N.` in a scenario. One that is absent is not supported. */
#define VALUES(X) \
    X(UTILIZATION, "utilization") \
    X(MEMORY_ACTIVITY, "memory_activity") \
    X(ENCODER, "encoder") \
    X(DECODER, "decoder") \
    X(MEMORY_TOTAL, "memory_total") \
    X(MEMORY_USED, "memory_used") \
    X(MEMORY_RESERVED, "memory_reserved") \
    X(POWER, "power") \
    X(POWER_INSTANT, "power_instant") \
    X(POWER_LIMIT, "power_limit") \
    X(POWER_MANAGEMENT_LIMIT, "power_management_limit") \
    X(POWER_DEFAULT_LIMIT, "power_default_limit") \
    X(ENERGY, "energy") \
    X(TEMPERATURE, "temperature") \
    X(TEMPERATURE_SLOWDOWN, "temperature_slowdown") \
    X(TEMPERATURE_MARGIN, "temperature_margin") \
    X(MEMORY_TEMPERATURE, "memory_temperature") \
    X(FAN, "fan") \
    X(CLOCK_GRAPHICS, "clock.graphics") \
    X(CLOCK_SM, "clock.sm") \
    X(CLOCK_MEMORY, "clock.memory") \
    X(CLOCK_VIDEO, "clock.video") \
    X(CLOCK_MAX_GRAPHICS, "clock_max.graphics") \
    X(CLOCK_MAX_SM, "clock_max.sm") \
    X(CLOCK_MAX_MEMORY, "clock_max.memory") \
    X(CLOCK_MAX_VIDEO, "clock_max.video") \
    X(CLOCK_EVENTS, "clock_events") \
    X(PCIE_WIDTH, "pcie_width") \
    X(PCIE_WIDTH_MAX, "pcie_width_max") \
    X(PCIE_GENERATION, "pcie_generation") \
    X(PCIE_GENERATION_MAX, "pcie_generation_max") \
    X(PCIE_TX_RATE, "pcie_tx_rate") \
    X(PCIE_RX_RATE, "pcie_rx_rate") \
    X(PCIE_TX_BYTES, "pcie_tx_bytes") \
    X(PCIE_RX_BYTES, "pcie_rx_bytes") \
    X(NVLINK_TX, "nvlink_tx") \
    X(NVLINK_RX, "nvlink_rx") \
    X(NVLINK_CRC_FLIT, "nvlink_crc_flit") \
    X(NVLINK_CRC_DATA, "nvlink_crc_data") \
    X(NVLINK_REPLAY, "nvlink_replay") \
    X(NVLINK_RECOVERY, "nvlink_recovery") \
    X(NVLINK_ECC, "nvlink_ecc") \
    X(NVLINK_DL_REPLAY, "nvlink_dl_replay") \
    X(NVLINK_DL_RECOVERY, "nvlink_dl_recovery") \
    X(NVLINK_DL_CRC, "nvlink_dl_crc") \
    X(NVLINK5_TX, "nvlink5_tx") \
    X(NVLINK5_RX, "nvlink5_rx") \
    X(NVLINK5_RECEIVE, "nvlink5_receive") \
    X(NVLINK5_INTEGRITY, "nvlink5_integrity") \
    X(NVLINK5_DISCARD, "nvlink5_discard") \
    X(NVLINK5_RECOVERY_FAILED, "nvlink5_recovery_failed") \
    X(NVLINK5_RECOVERY, "nvlink5_recovery") \
    X(NVLINK5_EFFECTIVE, "nvlink5_effective") \
    X(PCIE_REPLAYS, "pcie_replays") \
    X(RETIRED_SINGLE_BIT, "retired_single_bit") \
    X(RETIRED_DOUBLE_BIT, "retired_double_bit") \
    X(RETIRED_PENDING, "retired_pending") \
    X(RECOVERY_ACTION, "recovery_action") \
    X(FABRIC_STATE, "fabric_state") \
    X(FABRIC_STATUS, "fabric_status") \
    X(FABRIC_HEALTH, "fabric_health") \
    X(ECC_CORRECTED_VOLATILE, "ecc_corrected_volatile") \
    X(ECC_UNCORRECTED_VOLATILE, "ecc_uncorrected_volatile") \
    X(ECC_CORRECTED_AGGREGATE, "ecc_corrected_aggregate") \
    X(ECC_UNCORRECTED_AGGREGATE, "ecc_uncorrected_aggregate") \
    X(REMAPPED_CORRECTABLE, "remapped_correctable") \
    X(REMAPPED_UNCORRECTABLE, "remapped_uncorrectable") \
    X(REMAPPED_PENDING, "remapped_pending") \
    X(REMAPPED_FAILURE, "remapped_failure") \
    X(GPM_SM, "gpm_sm") \
    X(GPM_OCCUPANCY, "gpm_occupancy") \
    X(GPM_TENSOR, "gpm_tensor") \
    X(GPM_DRAM, "gpm_dram") \
    X(GPM_PCIE_TX, "gpm_pcie_tx") \
    X(GPM_PCIE_RX, "gpm_pcie_rx") \
    X(GPM_NVLINK_TX, "gpm_nvlink_tx") \
    X(GPM_NVLINK_RX, "gpm_nvlink_rx") \
    X(MIG, "mig") \
    X(PERSISTENCE, "persistence") \
    X(COMPUTE_MODE, "compute_mode") \
    X(DISPLAY_ACTIVE, "display_active") \
    X(DISPLAY_MODE, "display_mode") \
    X(NUMA_NODE, "numa_node") \
    X(EVENT_TYPES, "event_types") \
    X(LOST, "lost") \
    X(LOST_AFTER_CALLS, "lost_after_calls")

enum value {
#define X(name, key) VALUE_##name,
    VALUES(X)
#undef X
    VALUE_COUNT
};

#endif
