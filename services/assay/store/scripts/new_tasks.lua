-- Registration of a task. Included after task_use.lua.

local function has_room_for_task(tenant, tasks_max)
  local own = P .. 'tt:' .. tenant
  return call('ZCOUNT', own, '(' .. NOW_MS, '+inf') < tonumber(tasks_max)
end

-- Store a new task; `use_task` of the caller sets its expiries. Returns its number.
local function store_task(tenant, task, record, first, gathers, kept_ms)
  local number = call('INCR', P .. 'tasks')
  call('ZREMRANGEBYSCORE', P .. 'tt:' .. tenant, '-inf', NOW_MS)
  call('HSET', P .. 't:' .. tenant .. ':' .. task, 'rec', record, 'first', first, 'n', number,
    'kept', kept_ms)
  if gathers ~= '' then call('HSET', P .. 't:' .. tenant .. ':' .. task, 'gathers', gathers) end
  return number
end
