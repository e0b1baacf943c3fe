-- Ends the requests of services that have answered no check for a while: a client of a frozen or cut-off one is told.
local seconds = tonumber(os.getenv("FROZEN_SECONDS")) -- from the first check without an answer on

local function is_frozen(stats)
    return stats.status == "DOWN" and string.find(stats.check_status or "", "TOUT") ~= nil
        and tonumber(stats.lastchg) >= seconds
end

local function each_server(what)
    for _, backend in pairs(core.backends) do
        for name, server in pairs(backend.servers) do
            what(name, server, server:get_stats())
        end
    end
end

core.register_task(function()
    while true do
        core.sleep(1)
        local frozen = {}
        each_server(function(name, _, stats) frozen[name] = frozen[name] or is_frozen(stats) end)
        each_server(function(name, server, stats)
            if frozen[name] and tonumber(stats.scur) > 0 then
                core.Warning(name .. " answers no check: " .. stats.scur .. " requests end")
                server:shut_sess()
            end
        end)
    end
end)
