-- What tenants have used of the workers in the last day. Included after requests.lua.
--
--   wt:<tenant>        HASH    hour since 1970 -> microseconds of workers; of the last day

local HOUR_US = 3600 * 1000000
local DAY_HOURS = 24 -- as in core/store_limits.py

local function spend(tenant, cost_us)
  if cost_us <= 0 then return end
  local key, hour = P .. 'wt:' .. tenant, math.floor(NOW_US / HOUR_US)
  if call('HINCRBY', key, hour, cost_us) == cost_us then -- the first of this hour
    call('HDEL', key, hour - DAY_HOURS, hour - DAY_HOURS - 1)
    call('PEXPIRE', key, (DAY_HOURS + 1) * HOUR_US / 1000)
  end
end

-- Milliseconds until a tenant that has used `most_us` or more may go on; 0: now.
local function rest_ms(tenant, most_us)
  local this, fields = math.floor(NOW_US / HOUR_US), {}
  for hour = this - DAY_HOURS + 1, this do fields[#fields + 1] = hour end
  local used, sum = call('HMGET', P .. 'wt:' .. tenant, unpack(fields)), 0
  for i = 1, DAY_HOURS do sum = sum + tonumber(used[i] or 0) end
  for i = 1, DAY_HOURS do
    if sum < most_us then
      if i == 1 then return 0 end
      return math.ceil(((this + i - 1) * HOUR_US - NOW_US) / 1000)
    end
    sum = sum - tonumber(used[i] or 0)
  end
  return math.ceil(((this + DAY_HOURS) * HOUR_US - NOW_US) / 1000)
end
