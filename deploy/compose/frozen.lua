-- Ends the requests of services that have answered no check for a while: a client of a frozen or cut-off one is told.
local seconds = tonumber(os.getenv("FROZEN_SECONDS"))
local silent = {} -- seconds for which each service has answered no check, by its server's name

local function is_silent(stats)
    return stats.status == "DOWN" and string.find(stats.check_status or "", "TOUT") ~= nil
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
        local now = {}
        each_server(function(name, _, stats)
            if is_silent(stats) then now[name] = (silent[name] or 0) + 1 end
        end)
        silent = now
        each_server(function(name, server, stats)
            if (silent[name] or 0) >= seconds and tonumber(stats.scur) > 0 then
                core.Warning(name .. " answers no check: " .. stats.scur .. " requests end")
                server:shut_sess()
            end
        end)
    end
end)
